"""Commands that show the fleet: overview, top, nodes, gpus, metrics, usage, waste."""
