"""Webhook subscriptions and the transactional outbox of their deliveries."""
