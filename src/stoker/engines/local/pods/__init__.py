"""The pods of the local engine: their directories and records, how they start, become ready and roll over.

`PodRegistry` holds them all.
"""
