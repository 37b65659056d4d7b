"""The `aggregation` family: usage by the hour and snapshots of who holds what, in the words of its document."""
