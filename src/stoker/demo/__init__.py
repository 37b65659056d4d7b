"""The demo: a simulated cluster with tenants, a month of history, and a load generator.

`open_demo` is the entry point.
"""
