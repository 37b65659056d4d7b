"""OpenAPI 3.1 documents of the API: one of each family, and one of the whole.

They are derived from the endpoint table alone, so they cannot disagree with the routes."""

from stoker.api.http.openapi.document import build_document

__all__ = ["build_document"]
