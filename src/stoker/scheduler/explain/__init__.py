"""Why a workload is pending, what blocks it, and which changes would start it now.

Every suggested change was verified by a what-if cycle.
"""
