"""Endpoints for usage reports from the ledger and for idle allocated GPUs, as JSON, CSV or Parquet."""
