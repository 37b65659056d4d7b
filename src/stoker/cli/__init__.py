"""The `stoker` command: click verbs over the SDK, and over the server and its files on this machine.

Start-up is the table and click alone; a verb brings what it needs when it is called.
"""
