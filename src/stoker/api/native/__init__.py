"""Stoker's own family at /api/stoker/v1: identity, organisation, audit and settings."""
