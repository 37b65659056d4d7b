"""Collection loops: GPU samples and the live view, pod usage, logs, training and inference metrics."""
