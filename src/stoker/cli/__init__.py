"""The `stoker` command: click commands over the SDK, and over the server and its files on this machine.

Start-up imports only the registry and click; the module of a command is imported when the command is called.
"""
