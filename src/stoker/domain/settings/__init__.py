"""The settings of a server, and how flags, environment and file become them.

Each setting is declared once, with its type, range and description.
"""
