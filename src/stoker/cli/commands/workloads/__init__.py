"""Commands on workloads: run, submit, list, describe, logs, stop and the rest of their lifecycle."""
