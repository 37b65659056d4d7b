"""Resolves settings from flags, environment and file, and reports invalid values.

Flags override the environment, the environment overrides the file, the file overrides the default.
"""

import difflib
import ipaddress
import json
import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, get_origin
from urllib.parse import urlsplit

import msgspec

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.description import ENV_PREFIX, SPEC_BY_NAME, SettingSpec, format_value
from stoker.domain.settings.schema import DEMO_DATA_DIR, Settings, redact

CLIENT_ENV_VARIABLES = frozenset(
    {"STOKER_SERVER", "STOKER_TOKEN", "STOKER_CONFIG", "STOKER_OUTPUT", "STOKER_REPORT_URL", "STOKER_REPORT_TOKEN"}
)

_METRIC_NAME_SETTINGS = ("prometheus_prefix", "prometheus_node_label")
_BOOLEAN_WORDS = {
    word: word in {"1", "true", "yes", "on"} for word in ("1", "true", "yes", "on", "0", "false", "no", "off")
}
_MAX_SHOWN_CHARACTERS = 80
_MAX_PRICE = 1_000_000


class ResolvedSettings(msgspec.Struct, frozen=True):
    """The effective settings, the origin of each, and warnings about unknown environment variables."""

    settings: Settings
    origins: dict[str, str]
    warnings: tuple[str, ...] = ()


def resolve_settings(
    flags: Mapping[str, object], environ: Mapping[str, str], toml: Mapping[str, object]
) -> ResolvedSettings:
    """The settings of one process; flags with the value None were not given."""
    given = {name: value for name, value in flags.items() if value is not None}
    for source, names in (("flag", given), ("file", toml)):
        for name in names:
            if name not in SPEC_BY_NAME:
                raise _unknown_setting_error(name, source)
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for spec in SPEC_BY_NAME.values():
        raw, origin = _pick_source(spec, given, environ, toml)
        value = _parse_value(spec, raw, origin)
        values[spec.name] = _expand_home(spec, value, origin, environ) if _is_path(spec) else value
        origins[spec.name] = origin
    if values["demo"] and origins["default_cluster"] == "default":
        values["default_cluster"], origins["default_cluster"] = "demo", origins["demo"]
    if values["demo"] and origins["data_dir"] == "default":
        demo_dir = _expand_home(SPEC_BY_NAME["data_dir"], DEMO_DATA_DIR, origins["demo"], environ)
        values["data_dir"], origins["data_dir"] = demo_dir, origins["demo"]
    settings = msgspec.convert(values, Settings)
    _check_combinations(settings, origins)
    return ResolvedSettings(settings, origins, tuple(_unknown_variables(environ)))


def _pick_source(
    spec: SettingSpec, flags: Mapping[str, object], environ: Mapping[str, str], toml: Mapping[str, object]
) -> tuple[object, str]:
    if spec.name in flags:
        return flags[spec.name], f"flag {spec.flag}"
    if spec.env in environ:
        return environ[spec.env], f"env {spec.env}"
    if spec.name in toml:
        return toml[spec.name], "file"
    return spec.default, "default"


def _parse_value(spec: SettingSpec, raw: object, origin: str) -> object:
    try:
        value = msgspec.convert(_parse_text(spec.kind, raw) if isinstance(raw, str) else raw, spec.kind)
    except (msgspec.ValidationError, ValueError):
        raise _invalid_value_error(spec.name, origin, raw, f"is not {spec.type_name}. Use {spec.value_hint}.") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise _invalid_value_error(spec.name, origin, raw, f"is not {spec.type_name}. Use {spec.value_hint}.")
    try:
        return msgspec.convert(value, Annotated[spec.kind, spec.meta])
    except msgspec.ValidationError:
        if value == "":
            problem = f"is empty. Leave it out for the default, {format_value(spec.default)}."
        else:
            problem = f"is out of range. Use {spec.value_hint}."
        raise _invalid_value_error(spec.name, origin, raw, problem) from None


def _parse_text(kind: Any, text: str) -> object:
    """Convert text to the value that a settings file would hold; other text is returned or raises ValueError."""
    word = text.strip()
    if get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(kind) is dict:
        pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
        return {name.strip(): float(number) for name, _, number in pairs}
    if kind is bool:
        return _BOOLEAN_WORDS.get(word.lower(), text)
    if kind is int:
        return int(word) if re.fullmatch("[+-]?[0-9]+", word) else text
    if kind is float:
        return float(word)
    return word.lower() if issubclass(kind, StrEnum) else text


def _is_path(spec: SettingSpec) -> bool:
    return spec.meta.extra is not None and bool(spec.meta.extra.get("path"))


def _expand_home(spec: SettingSpec, value: object, origin: str, environ: Mapping[str, str]) -> str:
    path = str(value)
    if not path.startswith("~"):
        return path
    home = environ.get("HOME", "")
    if not home or path[1:2] not in {"", "/"}:
        raise _invalid_value_error(
            spec.name, origin, path, 'starts with a "~" that cannot be expanded. Use an absolute path.'
        )
    return str(PurePosixPath(home) / path[1:].lstrip("/"))


def _check_combinations(settings: Settings, origins: Mapping[str, str]) -> None:
    """Checks that involve several settings or the content of a text."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given, missing = ("tls_cert", "tls_key") if settings.tls_cert else ("tls_key", "tls_cert")
        message = f"{missing}: is empty, but {given} ({origins[given]}) is set. Set both for HTTPS, or neither."
        raise StokerError(ErrorCode.BAD_REQUEST, message, field=missing)
    if settings.database and not settings.database.startswith(("postgresql://", "postgres://")):
        problem = "is not a PostgreSQL address. Use postgresql://user@host/name, or leave it empty for SQLite."
        raise _invalid_value_error("database", origins["database"], settings.database, problem)
    if settings.prometheus_url and not _is_http_url(settings.prometheus_url):
        problem = "is not the URL of a server. Use http://host:9090 or https://host/path, without a query."
        raise _invalid_value_error("prometheus_url", origins["prometheus_url"], settings.prometheus_url, problem)
    for name in _METRIC_NAME_SETTINGS:
        value = getattr(settings, name)
        if not re.fullmatch("([a-zA-Z_][a-zA-Z0-9_]*)?", value):
            problem = "is not valid in a metric name. Use letters, digits and _; the first character is not a digit."
            raise _invalid_value_error(name, origins[name], value, problem)
    for model, price in settings.gpu_prices.items():
        if not model or not 0 <= price <= _MAX_PRICE:
            problem = f"is not a valid price. Use a GPU model and a number from 0 to {_MAX_PRICE:,}."
            raise _invalid_value_error("gpu_prices", origins["gpu_prices"], {model: price}, problem)
    for proxy in settings.trusted_proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            problem = "is not an address range. Use CIDRs such as 10.0.0.0/8 or 192.168.1.7/32."
            raise _invalid_value_error("trusted_proxies", origins["trusted_proxies"], proxy, problem) from None


def _is_http_url(text: str) -> bool:
    try:
        address = urlsplit(text)
        port = address.port
    except ValueError:
        return False
    host = re.fullmatch(r"[\w.:%-]+", address.hostname or "")
    plain = text.isprintable() and " " not in text and not address.query + address.fragment
    return address.scheme in {"http", "https"} and bool(host) and port != 0 and plain


def _unknown_variables(environ: Mapping[str, str]) -> Iterable[str]:
    known = CLIENT_ENV_VARIABLES | {spec.env for spec in SPEC_BY_NAME.values()}
    for variable in sorted(name for name in environ if name.startswith(ENV_PREFIX) and name not in known):
        near = difflib.get_close_matches(variable.removeprefix(ENV_PREFIX).lower(), SPEC_BY_NAME, n=1)
        advice = f" Did you mean {SPEC_BY_NAME[near[0]].env}?" if near else ""
        yield f"{variable} is not a setting and has no effect.{advice}"


def _unknown_setting_error(name: str, source: str) -> StokerError:
    near = difflib.get_close_matches(name, SPEC_BY_NAME, n=1)
    advice = f'Did you mean "{near[0]}"?' if near else "docs/settings.md lists them all."
    return StokerError(ErrorCode.BAD_REQUEST, f'There is no setting "{name}" ({source}). {advice}', field=name)


def _invalid_value_error(name: str, origin: str, raw: object, problem: str) -> StokerError:
    return StokerError(ErrorCode.BAD_REQUEST, f"{name} ({origin}): {_shorten_for_message(raw)} {problem}", field=name)


def _shorten_for_message(raw: object) -> str:
    text = redact(raw) if isinstance(raw, str) else redact(json.dumps(raw, default=str, ensure_ascii=False))
    short = text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "..."
    return json.dumps(short, ensure_ascii=False) if isinstance(raw, str) else short
