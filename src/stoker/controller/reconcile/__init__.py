"""Brings pods to the state that workloads ask for. `Reconciler` is the entry; `actions` decides, `effects` acts."""
