"""Parses training metrics out of log lines; the entry point is `TrainingParser`.

Lines that cannot contain a metric are rejected early. Others are parsed by format: Megatron segments, a mapping, a
progress bar, or key-value pairs. One vocabulary gives the meaning of each name.
"""

from stoker.telemetry.training_logs.parser import TrainingParser

__all__ = ["TrainingParser"]
