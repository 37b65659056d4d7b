"""This machine as a node: its GPUs, and the processes that belong to its pods."""
