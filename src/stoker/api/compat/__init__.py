"""API families that follow published API documents: management, monitoring, aggregation and Run:ai.

Paths and field names are those of the documents.
"""
