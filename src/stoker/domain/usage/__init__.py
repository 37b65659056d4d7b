"""The usage ledger, its hourly rollups, and usage reports with costs.

Amounts are whole milli-GPU-milliseconds, so that sums are exact.
"""
