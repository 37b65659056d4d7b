"""What training code prints about itself, read from its log lines. `TrainingParser` is the door.

A line is cleaned, turned away early if it cannot hold a metric, and split by its shape: segments between bars, a
mapping, a progress bar, or names with values. One table then says what each name means.
"""

from stoker.telemetry.training.parser import TrainingParser

__all__ = ["TrainingParser"]
