"""Retrying and supervising, shared by every package: the one back-off, and the supervisor of endless loops."""
