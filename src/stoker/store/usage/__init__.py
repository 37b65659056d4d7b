"""Closed usage hours, days, the ledger reports and the allocation snapshots."""
