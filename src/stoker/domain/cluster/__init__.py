"""Nodes, resources and quantities, hardware samples, the live view, and access to engines.

Amounts are whole numbers: milli-GPUs, milli-CPUs and bytes.
"""
