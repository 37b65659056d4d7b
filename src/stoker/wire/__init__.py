"""The requests and responses of the native API, declared once: the server encodes and the SDK decodes the same structs.

A module per resource. `wire` imports only `domain`, so the SDK works without the server's packages.
"""
