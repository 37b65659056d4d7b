"""The `lens` family: monitoring of workloads and clusters, in the words of its two documents."""
