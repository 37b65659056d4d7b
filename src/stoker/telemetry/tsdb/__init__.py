"""GPU samples at rest: codec, device index, cached reads, hour matrices and compaction of ticks into blocks."""
