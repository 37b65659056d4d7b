"""What engines that run pods themselves share: readiness, rolling updates, and services in front of replicas.

A pod of such an engine is a `Replica`.
"""
