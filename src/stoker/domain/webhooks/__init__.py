"""Webhooks: events, payloads, delivery state, allowed targets and signatures.

An event derives from its transition alone, so every delivery of it is identical.
"""
