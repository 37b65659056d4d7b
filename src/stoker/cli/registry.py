"""Every command: its module below `stoker.cli.commands`, its function, and its line in `stoker --help`.

The registry imports none of them.
"""

SECTIONS: dict[str, dict[str, tuple[str, str, str]]] = {
    "Workloads": {
        "run": ("workloads.run", "run_command", "Run a command as a job and print its output."),
        "submit": ("workloads.submit", "submit_command", "Submit a workload, from flags or a file."),
        "list": ("workloads.list", "list_command", "List workloads."),
        "ps": ("workloads.list", "list_command", "The same as list."),
        "describe": ("workloads.describe", "describe_command", "Show everything about a workload."),
        "explain": ("workloads.explain", "explain_command", "Explain why a workload is pending."),
        "logs": ("workloads.logs", "logs_command", "Show the logs of a workload."),
        "training": ("workloads.training", "training_command", "Plot training metrics of a workload."),
        "events": ("workloads.events", "events_command", "Follow the events of workloads."),
        "wait": ("workloads.wait", "wait_command", "Wait until workloads are running or have ended."),
        "stop": ("workloads.lifecycle", "stop_command", "Stop workloads."),
        "suspend": ("workloads.lifecycle", "suspend_command", "Stop workloads, to be resumed later."),
        "resume": ("workloads.lifecycle", "resume_command", "Queue stopped workloads again."),
        "clone": ("workloads.lifecycle", "clone_command", "Submit copies of workloads."),
        "patch": ("workloads.patch", "patch_command", "Change a workload."),
        "rollback": ("workloads.lifecycle", "rollback_command", "Return workloads to their previous revision."),
        "delete": ("workloads.lifecycle", "delete_command", "Stop workloads and hide them."),
        "exec": ("workloads.exec", "exec_command", "Run a command inside a pod."),
        "shell": ("workloads.exec", "shell_command", "Open a shell inside a pod."),
        "schema": ("server.tooling", "schema_command", "Print the JSON Schema of a workload to submit."),
    },
    "Monitoring": {
        "overview": ("monitoring.overview", "overview_command", "Show nodes, GPUs and their utilization."),
        "top": ("monitoring.top", "top_command", "Watch the workloads with the most GPUs."),
        "nodes": ("monitoring.nodes_gpus", "nodes_command", "List nodes."),
        "gpus": ("monitoring.nodes_gpus", "gpus_command", "List GPUs."),
        "metrics": ("monitoring.metrics", "metrics_command", "Plot GPU metrics of a workload."),
        "waste": ("monitoring.waste", "waste_command", "List allocated GPUs that are idle."),
        "usage": ("monitoring.usage", "usage_command", "Report GPU-hours and their cost."),
    },
    "Who and where": {
        "login": ("identity.session", "login_command", "Sign in to a server with a password."),
        "logout": ("identity.session", "logout_command", "Sign out and delete the stored log-in."),
        "whoami": ("identity.session", "whoami_command", "Show the user you are signed in as."),
        "user": ("identity.user", "user_command", "Users: list, create, show, edit, delete, passwd."),
        "workspace": ("identity.workspace", "workspace_command", "Workspaces and their members."),
        "department": ("identity.department", "department_command", "Departments, which group workspaces."),
        "key": ("identity.key", "key_command", "API keys: list, create, delete."),
        "app": ("identity.app", "app_command", "Applications, which sign in with id and secret."),
        "webhook": ("identity.webhook", "webhook_command", "Webhooks, which receive events."),
        "cluster": ("identity.cluster", "cluster_command", "Clusters: add, list, describe, edit, remove, check."),
        "audit": ("identity.audit", "audit_command", "Show the audit log."),
    },
    "The server": {
        "serve": ("server.serve", "serve_command", "Run the server."),
        "config": ("server.config", "config_command", "Show the settings on this machine."),
        "backup": ("server.backup", "backup_command", "Copy the database, while the server runs."),
        "restore": ("server.backup", "restore_command", "Replace the database with a backup."),
        "demo": ("server.demo", "demo_command", "Remove a demo from a data directory."),
        "check": ("server.check", "check_command", "Check this installation."),
        "completion": ("server.tooling", "completion_command", "Print the completion script of a shell."),
        "version": ("server.tooling", "version_command", "Show the version."),
    },
}
COMMANDS = {verb: entry for section in SECTIONS.values() for verb, entry in section.items()}
