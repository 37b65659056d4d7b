"""What code inside a job uses. It needs nothing but Python itself, and never disturbs the code that calls it."""

from stoker.job.report import report

__all__ = ["report"]
