"""The domain model: frozen structs and pure functions.

Nothing here reads files, clocks or sockets, or imports another package of Stoker.
"""
