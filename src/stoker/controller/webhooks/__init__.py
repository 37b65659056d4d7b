"""Delivers events from the outbox to webhooks."""
