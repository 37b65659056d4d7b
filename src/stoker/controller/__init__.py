"""The controllers of clusters: loops that schedule and reconcile workloads, collect samples and logs, close usage
hours, enforce policies and deliver webhooks. Every write is fenced by the cluster's lease."""
