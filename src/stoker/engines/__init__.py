"""Where workloads run. Every engine keeps the protocol of `base.py`."""
