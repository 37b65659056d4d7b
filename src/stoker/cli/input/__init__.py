"""Input of users: job files and flags, durations and times, passwords, keys."""
