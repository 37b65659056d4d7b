"""Every setting with its type, accepted values and default, for parsing, error messages, docs and CLI flags.

All of it derives from the annotations of `Settings`.
"""

from enum import StrEnum
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Meta

from stoker.domain.settings.schema import Settings

ENV_PREFIX = "STOKER_"


class SettingDoc(msgspec.Struct, frozen=True):
    """One setting as shown in the docs and in the help of the CLI."""

    name: str
    env: str
    flag: str
    value_syntax: str
    default: str
    description: str


class SettingSpec(msgspec.Struct, frozen=True):
    """One field of `Settings` with everything that parsing needs."""

    name: str
    kind: Any
    meta: Meta
    default: Any
    type_name: str
    value_syntax: str
    value_hint: str

    @property
    def env(self) -> str:
        return ENV_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def describe_settings() -> list[SettingDoc]:
    """All settings in declaration order."""
    return [
        SettingDoc(
            spec.name, spec.env, spec.flag, spec.value_syntax, format_value(spec.default), spec.meta.description or ""
        )
        for spec in SPEC_BY_NAME.values()
    ]


def build_spec(field: msgspec.structs.FieldInfo) -> SettingSpec:
    kind, meta = get_args(field.type)
    factory = field.default_factory
    default = field.default if factory is msgspec.NODEFAULT else factory()
    return SettingSpec(field.name, kind, meta, default, *_describe_type(kind, _describe_bounds(meta)))


def _describe_type(kind: Any, bounds: str) -> tuple[str, str, str]:
    """The noun for a value, its syntax in the docs, and the advice in error messages."""
    if get_origin(kind) is tuple:
        return "a list of strings", "comma list", "strings separated by commas"
    if get_origin(kind) is dict:
        return "a map of numbers", "name=number list", 'numbers by name, such as "H100=2.5,*=1"'
    if kind is bool:
        return "a boolean", "true|false", "true or false"
    if kind is int:
        return "a whole number", f"whole number {bounds}".rstrip(), bounds or "digits"
    if kind is float:
        return "a number", f"number {bounds}".rstrip(), bounds or "a number such as 1.5"
    if issubclass(kind, StrEnum):
        *most, last = kind
        return "one of the choices", "|".join(kind), f"{', '.join(most)} or {last}"
    return "text", "text", "text in quotes"


def _describe_bounds(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f"{meta.ge} to {meta.le}"
    limits = (("at least", meta.ge), ("more than", meta.gt), ("at most", meta.le), ("less than", meta.lt))
    return " and ".join(f"{word} {limit}" for word, limit in limits if limit is not None)


SPEC_BY_NAME = {field.name: build_spec(field) for field in msgspec.structs.fields(Settings)}


def format_value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            return ",".join(map(str, value))
        case dict():
            return ",".join(f"{name}={number:g}" for name, number in value.items())
        case _:
            return str(value)
