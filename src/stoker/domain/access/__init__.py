"""Users, workspaces, credentials, and the rules of who may do what.

Invariant: every permission is decided by `permissions.check_access`.
"""
