"""SQLite: one writer with group commit, reader threads, backup, and a disk reserve."""
