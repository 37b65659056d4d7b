"""Commands that run beside the server: serve, config, backup, restore, check, demo; and version, completion, schema."""
