"""The operations of the SDK by resource, declared once for the sync and the async client."""
