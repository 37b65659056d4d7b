"""Stoker runs GPU workloads and shows what the GPUs really do."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.job import report

__version__ = "0.1.0"
__all__ = ["__version__", "report"]


def __getattr__(name: str) -> Any:
    """`stoker.report`, for code in a job; nothing is imported for it before it is used."""
    if name == "report":
        from stoker.job import report

        return report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
