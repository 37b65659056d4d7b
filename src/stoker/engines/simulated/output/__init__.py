"""What simulated pods print: logs, training metrics and the exec shell."""
