"""What all commands use: options, the connection with its credential, errors and exit codes, the click group."""
