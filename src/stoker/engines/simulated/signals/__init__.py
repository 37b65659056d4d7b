"""What simulated GPUs and inference servers report: load, sensors, request metrics."""
