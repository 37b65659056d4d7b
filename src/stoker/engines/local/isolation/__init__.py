"""Namespaces, cgroups, mounts and job users: what isolates a pod from the platform.

`containment` probes what this machine supports.
"""
