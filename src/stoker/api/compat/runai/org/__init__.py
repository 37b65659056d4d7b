"""Run:ai projects, departments, clusters, node pools and nodes."""
