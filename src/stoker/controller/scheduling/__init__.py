"""The scheduling loop: reads the cluster, plans, stores placements and pending reasons."""
