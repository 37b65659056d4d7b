"""Closes hours into the usage ledger and takes allocation snapshots."""
