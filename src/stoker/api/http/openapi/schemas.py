"""JSON Schemas of the structs that an OpenAPI document refers to.

A name stands for one struct: a second one of the same name is an error.
"""

from types import UnionType
from typing import Any, get_args

import msgspec
from msgspec import Struct

REF_TEMPLATE = "#/components/schemas/{name}"


class SchemaComponents:
    """Collects the schemas of all structs that are described."""

    def __init__(self) -> None:
        self._schemas: dict[str, Any] = {}
        self._described: dict[type[Struct], dict[str, Any]] = {}

    def schema(self, kind: Any) -> dict[str, Any]:
        """The schema of a type, with references to its structs. A struct, such as that of all errors, is described
        once."""
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            return self._describe(kind)
        if kind not in self._described:
            self._described[kind] = self._describe(kind)
        return self._described[kind]

    def _describe(self, kind: Any) -> dict[str, Any]:
        alternatives = get_args(kind) if isinstance(kind, UnionType) else ()
        if alternatives and all(isinstance(each, type) and issubclass(each, Struct) for each in alternatives):
            return {"anyOf": [self.schema(each) for each in alternatives]}
        (schema,), found = msgspec.json.schema_components(
            [kind], schema_hook=_reject_unknown_type, ref_template=REF_TEMPLATE
        )
        for name, component in found.items():
            if self._schemas.setdefault(name, component) != component:
                raise ValueError(f"two different structs are called {name}; rename one of them")
        return schema

    def sorted(self) -> dict[str, Any]:
        return dict(sorted(self._schemas.items()))


def _reject_unknown_type(kind: type) -> dict[str, Any]:
    raise NotImplementedError(f"{kind} has no JSON Schema; use a {Struct.__name__} for results and bodies")
