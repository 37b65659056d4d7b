"""The aggregation family at /api/v1/gpu-aggregation: hourly usage and allocation snapshots."""
