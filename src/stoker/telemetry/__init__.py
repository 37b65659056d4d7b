"""GPU telemetry: collectors, stored samples, range queries, live views, and metrics parsed from training logs.

Telemetry makes no decision about workloads, and a collector that hangs blocks nothing else.
"""
