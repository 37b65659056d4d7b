"""The library for code that runs inside a job. It uses the standard library only and never raises into the calling
code."""

from stoker.job.report import report

__all__ = ["report"]
