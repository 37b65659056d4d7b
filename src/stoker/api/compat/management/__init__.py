"""The management family at /api/custom/workloads: submit, list, change, stop, follow."""
