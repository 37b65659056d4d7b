"""The demo: a simulated cluster with its teams, a month of their past, and people who go on working.

`open_demo` is the door. Nothing here is real, and everything says so.
"""
