"""Operations on workloads through the server: name resolution, batches, attach, terminals in pods."""
