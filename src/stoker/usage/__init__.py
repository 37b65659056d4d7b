"""Usage accounting: turns samples and allocations of an hour into ledger entries and rollups.

Pure functions: arrays in, structs out.
"""
