"""Run:ai metrics of workloads and pods, and telemetry of workloads and nodes."""
