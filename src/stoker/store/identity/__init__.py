"""Users, credentials, departments, workspaces, the audit log and idempotency keys."""
