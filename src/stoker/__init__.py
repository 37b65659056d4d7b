"""Stoker runs GPU workloads and shows what the GPUs really do."""

__version__ = "0.1.0"
