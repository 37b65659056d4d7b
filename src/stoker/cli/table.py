"""Every verb: the module that has it, and what `stoker --help` says of it. Nothing is imported for that."""

VERBS: dict[str, tuple[str, str]] = {
    "serve": ("serve", "Run the server."),
    "login": ("login", "Sign in to a server with a password."),
    "logout": ("logout", "Sign out, and forget the log-in."),
    "whoami": ("whoami", "Show who you are to the server."),
    "user": ("user", "Users: list, create, show, edit, delete, passwd."),
    "workspace": ("workspace", "Workspaces and their members."),
    "department": ("department", "Departments, which hold workspaces."),
    "key": ("key", "API keys: list, create, delete."),
    "app": ("app", "Applications, which sign in by id and secret."),
    "cluster": ("cluster", "Clusters, where workloads run."),
    "audit": ("audit", "Show who did what, and how it ended."),
    "config": ("config", "Show the settings on this machine."),
    "backup": ("backup", "Copy the database, while the server runs."),
    "restore": ("restore", "Put a backup in the database's place."),
    "check": ("check", "Find out what is wrong with this installation."),
    "completion": ("completion", "Print the completion script of a shell."),
    "version": ("version", "Show the version."),
}
