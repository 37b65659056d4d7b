"""One file per verb or group of verbs; each has a `command` that the table names."""
