"""Closed usage hours, usage reports with cost, and GPUs allocated but idle."""
