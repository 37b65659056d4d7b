"""Simulated pods: their state by time, rollout plans, registry and journal."""
