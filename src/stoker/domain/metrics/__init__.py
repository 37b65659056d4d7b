"""Training metrics, metric names, pod samples, range queries and the report token."""
