"""Run:ai workloads: list and read, submit by type, submit as Kubernetes manifest, actions, events."""
