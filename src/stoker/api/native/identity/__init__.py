"""Endpoints for sessions, users, departments, workspaces with their members, API keys and applications."""
