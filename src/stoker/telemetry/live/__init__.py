"""Builds the live view of a cluster from its topology, allocations and latest samples."""
