"""The Docker Engine API: transport, typed calls and answers."""
