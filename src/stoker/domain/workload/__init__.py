"""The workload, its pods and its lifecycle: frozen structs and pure functions.

Invariant: a phase changes only through `lifecycle.transition`.
"""
