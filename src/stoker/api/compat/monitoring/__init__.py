"""The monitoring family: workloads and clusters of the fleet, their GPU and training metrics."""
