"""What Stoker talks about, and the rules it follows: frozen structs and pure functions.

Nothing here reads a file, a clock, a socket or another room.
"""
