"""Commands on log-ins, users, workspaces, departments, keys, applications, webhooks, clusters and the audit log."""
