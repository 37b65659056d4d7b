"""The management family at /api/custom/workloads : submit, list, edit, stop, clone, logs."""
