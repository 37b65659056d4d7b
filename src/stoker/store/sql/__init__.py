"""Helpers for statements: pagination and LIKE patterns, `IN` lists, sequences."""
