"""Who runs where, and who waits: pure functions over a snapshot."""
