"""Sign-in, users, API keys, applications, departments and workspaces."""
