"""Where settings come from, and what is wrong with those that cannot be taken.

A flag wins over the environment, the environment over the file, the file over the default.
"""

import difflib
import ipaddress
import json
import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings import Settings, masked

PREFIX = "STOKER_"
CLIENT_VARIABLES = frozenset(
    {"STOKER_SERVER", "STOKER_TOKEN", "STOKER_CONFIG", "STOKER_OUTPUT", "STOKER_REPORT_URL", "STOKER_REPORT_TOKEN"}
)

_METRIC_WORDS = ("prometheus_prefix", "prometheus_node_label")
_SWITCH = {word: word in {"1", "true", "yes", "on"} for word in ("1", "true", "yes", "on", "0", "false", "no", "off")}
_SHOWN_CHARACTERS = 80
_HIGHEST_PRICE = 1_000_000


class Resolved(msgspec.Struct, frozen=True):
    """The settings in force, where each came from, and what in the environment looks like a mistake."""

    settings: Settings
    origins: dict[str, str]
    warnings: tuple[str, ...] = ()


class SettingDoc(msgspec.Struct, frozen=True):
    """One setting in words, for the docs page and the flags of the CLI."""

    name: str
    env: str
    flag: str
    takes: str
    default: str
    description: str


class _Spec(msgspec.Struct, frozen=True):
    name: str
    kind: Any
    meta: Meta
    default: Any
    noun: str
    takes: str
    use: str

    @property
    def env(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def resolve(flags: Mapping[str, object], environ: Mapping[str, str], toml: Mapping[str, object]) -> Resolved:
    """The settings of one process; a flag of None is a flag that was not given."""
    given = {name: value for name, value in flags.items() if value is not None}
    for source, names in (("flag", given), ("file", toml)):
        for name in names:
            if name not in _SPECS:
                raise _unknown(name, source)
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for spec in _SPECS.values():
        raw, origin = _pick(spec, given, environ, toml)
        value = _value(spec, raw, origin)
        values[spec.name] = _expanded(spec, value, origin, environ) if _is_path(spec) else value
        origins[spec.name] = origin
    if values["demo"] and origins["default_cluster"] == "default":
        values["default_cluster"], origins["default_cluster"] = "demo", origins["demo"]
    settings = msgspec.convert(values, Settings)
    _check(settings, origins)
    return Resolved(settings, origins, tuple(_stray_variables(environ)))


def describe() -> list[SettingDoc]:
    """Every setting in the order of the struct."""
    return [
        SettingDoc(spec.name, spec.env, spec.flag, spec.takes, _as_text(spec.default), spec.meta.description or "")
        for spec in _SPECS.values()
    ]


def _spec(field: msgspec.structs.FieldInfo) -> _Spec:
    kind, meta = get_args(field.type)
    factory = field.default_factory
    default = field.default if factory is msgspec.NODEFAULT else factory()
    return _Spec(field.name, kind, meta, default, *_words(kind, _bounds(meta)))


def _words(kind: Any, bounds: str) -> tuple[str, str, str]:
    """What a value is, what the docs say it takes, and what an error says to use."""
    if get_origin(kind) is tuple:
        return "a list of texts", "comma list", "texts with commas between them"
    if get_origin(kind) is dict:
        return "a table of numbers", "name=number list", 'numbers by name, such as "H100=2.5,*=1"'
    if kind is bool:
        return "a switch", "true|false", "true or false"
    if kind is int:
        return "a whole number", f"whole number {bounds}".rstrip(), bounds or "digits"
    if kind is float:
        return "a number", f"number {bounds}".rstrip(), bounds or "a number such as 1.5"
    if issubclass(kind, StrEnum):
        *most, last = kind
        return "one of the choices", "|".join(kind), f"{', '.join(most)} or {last}"
    return "text", "text", "text in quotes"


def _bounds(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f"{meta.ge} to {meta.le}"
    limits = (("at least", meta.ge), ("more than", meta.gt), ("at most", meta.le), ("less than", meta.lt))
    return " and ".join(f"{word} {limit}" for word, limit in limits if limit is not None)


_SPECS = {field.name: _spec(field) for field in msgspec.structs.fields(Settings)}


def _pick(
    spec: _Spec, flags: Mapping[str, object], environ: Mapping[str, str], toml: Mapping[str, object]
) -> tuple[object, str]:
    if spec.name in flags:
        return flags[spec.name], f"flag {spec.flag}"
    if spec.env in environ:
        return environ[spec.env], f"env {spec.env}"
    if spec.name in toml:
        return toml[spec.name], "file"
    return spec.default, "default"


def _value(spec: _Spec, raw: object, origin: str) -> object:
    try:
        value = msgspec.convert(_from_text(spec.kind, raw) if isinstance(raw, str) else raw, spec.kind)
    except (msgspec.ValidationError, ValueError):
        raise _wrong(spec.name, origin, raw, f"is not {spec.noun}. Use {spec.use}.") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(spec.name, origin, raw, f"is not {spec.noun}. Use {spec.use}.")
    try:
        return msgspec.convert(value, Annotated[spec.kind, spec.meta])
    except msgspec.ValidationError:
        if value == "":
            problem = f"is empty. Leave it out for the default, {_as_text(spec.default)}."
        else:
            problem = f"is out of range. Use {spec.use}."
        raise _wrong(spec.name, origin, raw, problem) from None


def _from_text(kind: Any, text: str) -> object:
    """A text as the kind would be written in a file; one that cannot be stays text, or is a ValueError."""
    word = text.strip()
    if get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(kind) is dict:
        pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
        return {name.strip(): float(number) for name, _, number in pairs}
    if kind is bool:
        return _SWITCH.get(word.lower(), text)
    if kind is int:
        return int(word) if re.fullmatch("[+-]?[0-9]+", word) else text
    if kind is float:
        return float(word)
    return word.lower() if issubclass(kind, StrEnum) else text


def _is_path(spec: _Spec) -> bool:
    return spec.meta.extra is not None and bool(spec.meta.extra.get("path"))


def _expanded(spec: _Spec, value: object, origin: str, environ: Mapping[str, str]) -> str:
    path = str(value)
    if not path.startswith("~"):
        return path
    home = environ.get("HOME", "")
    if not home or path[1:2] not in {"", "/"}:
        raise _wrong(spec.name, origin, path, 'has a "~" that cannot be followed. Use a full path.')
    return str(PurePosixPath(home) / path[1:].lstrip("/"))


def _check(settings: Settings, origins: Mapping[str, str]) -> None:
    """What one annotation cannot say."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given, missing = ("tls_cert", "tls_key") if settings.tls_cert else ("tls_key", "tls_cert")
        message = f"{missing}: is empty, but {given} ({origins[given]}) is set. Set both for HTTPS, or neither."
        raise StokerError(ErrorCode.BAD_REQUEST, message, field=missing)
    if settings.database and not settings.database.startswith(("postgresql://", "postgres://")):
        problem = "is not a PostgreSQL address. Use postgresql://user@host/name, or leave it empty for SQLite."
        raise _wrong("database", origins["database"], settings.database, problem)
    if settings.prometheus_url and not _is_web_address(settings.prometheus_url):
        problem = "is not the address of a server. Use http://host:9090 or https://host/path, without a query."
        raise _wrong("prometheus_url", origins["prometheus_url"], settings.prometheus_url, problem)
    for name in _METRIC_WORDS:
        word = getattr(settings, name)
        if not re.fullmatch("([a-zA-Z_][a-zA-Z0-9_]*)?", word):
            problem = "cannot be part of a metric. Use letters, digits and _, and no digit first."
            raise _wrong(name, origins[name], word, problem)
    for model, price in settings.gpu_prices.items():
        if not model or not 0 <= price <= _HIGHEST_PRICE:
            problem = f"is no price of a model. Use a model's name and a number from 0 to {_HIGHEST_PRICE:,}."
            raise _wrong("gpu_prices", origins["gpu_prices"], {model: price}, problem)
    for proxy in settings.trusted_proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            problem = "is not an address range. Use CIDRs such as 10.0.0.0/8 or 192.168.1.7/32."
            raise _wrong("trusted_proxies", origins["trusted_proxies"], proxy, problem) from None


def _is_web_address(text: str) -> bool:
    try:
        address = urlsplit(text)
        port = address.port
    except ValueError:
        return False
    host = re.fullmatch(r"[\w.:%-]+", address.hostname or "")
    plain = text.isprintable() and " " not in text and not address.query + address.fragment
    return address.scheme in {"http", "https"} and bool(host) and port != 0 and plain


def _stray_variables(environ: Mapping[str, str]) -> Iterable[str]:
    known = CLIENT_VARIABLES | {spec.env for spec in _SPECS.values()}
    for variable in sorted(name for name in environ if name.startswith(PREFIX) and name not in known):
        near = difflib.get_close_matches(variable.removeprefix(PREFIX).lower(), _SPECS, n=1)
        advice = f" Did you mean {_SPECS[near[0]].env}?" if near else ""
        yield f"{variable} is not a setting and has no effect.{advice}"


def _unknown(name: str, source: str) -> StokerError:
    near = difflib.get_close_matches(name, _SPECS, n=1)
    advice = f'Did you mean "{near[0]}"?' if near else "docs/settings.md lists them all."
    return StokerError(ErrorCode.BAD_REQUEST, f'There is no setting "{name}" ({source}). {advice}', field=name)


def _wrong(name: str, origin: str, raw: object, problem: str) -> StokerError:
    return StokerError(ErrorCode.BAD_REQUEST, f"{name} ({origin}): {_shown(raw)} {problem}", field=name)


def _shown(raw: object) -> str:
    text = masked(raw) if isinstance(raw, str) else masked(json.dumps(raw, default=str, ensure_ascii=False))
    short = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return json.dumps(short, ensure_ascii=False) if isinstance(raw, str) else short


def _as_text(value: object) -> str:
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
