"""GPU samples, pod samples, training metrics and log chunks as they are stored."""
