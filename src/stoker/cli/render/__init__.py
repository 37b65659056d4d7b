"""Output: tables, plots, formats, progress, and sanitized text."""
