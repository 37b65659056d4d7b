"""Policies that act without a request: idle workloads, faulty GPUs, retention."""
