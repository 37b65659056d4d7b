"""Every setting, once. Its annotation is the only place that says what it takes, what it means and how far it goes.

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

PREFIX = "STOKER_"
CLIENT_VARIABLES = frozenset(
    {"STOKER_SERVER", "STOKER_TOKEN", "STOKER_CONFIG", "STOKER_OUTPUT", "STOKER_REPORT_URL", "STOKER_REPORT_TOKEN"}
)

_DAY = 86_400
_PATH = {"path": True}
_METRIC_WORDS = ("prometheus_prefix", "prometheus_node_label")
_SWITCH = {word: word in {"1", "true", "yes", "on"} for word in ("1", "true", "yes", "on", "0", "false", "no", "off")}
_SHOWN_CHARACTERS = 80


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class MonitoringAccess(StrEnum):
    LOOPBACK = "loopback"
    AUTHENTICATED = "authenticated"
    OPEN = "open"


class Containment(StrEnum):
    AUTO = "auto"
    NAMESPACES = "namespaces"
    SUBREAPER = "subreaper"


class LocalTrust(StrEnum):
    ADMINS = "admins"
    SHARED = "shared"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator can choose. Upper limits keep every product with milliseconds inside 64 bits."""

    host: Annotated[str, Meta(min_length=1, description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes any free port.")] = 8080
    data_dir: Annotated[
        str, Meta(min_length=1, description="Directory for the database, logs and samples.", extra=_PATH)
    ] = "~/.stoker"
    database: Annotated[
        str, Meta(description="PostgreSQL address (postgresql://...); empty means SQLite in the data directory.")
    ] = ""
    database_pool: Annotated[int, Meta(ge=1, le=200, description="PostgreSQL connections held open at most.")] = 10
    log_format: Annotated[LogFormat, Meta(description="How log lines are written.")] = LogFormat.TEXT
    log_level: Annotated[LogLevel, Meta(description="The least severe line that is logged.")] = LogLevel.INFO
    tls_cert: Annotated[
        str, Meta(description="PEM file with the certificate chain; empty means plain HTTP.", extra=_PATH)
    ] = ""
    tls_key: Annotated[str, Meta(description="PEM file with the key of tls_cert.", extra=_PATH)] = ""
    body_limit_bytes: Annotated[int, Meta(ge=1024, le=2**30, description="Largest request body.")] = 2_097_152
    header_limit_bytes: Annotated[int, Meta(ge=1024, le=2**20, description="Largest request head.")] = 32_768
    connection_limit: Annotated[int, Meta(ge=1, le=1_000_000, description="Connections served at once.")] = 1000
    peer_connection_limit: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Connections from one address at once; trusted proxies may have all."),
    ] = 500
    request_timeout_seconds: Annotated[
        float, Meta(gt=0, le=_DAY, description="How long a request may take before it is given up.")
    ] = 30.0
    key_rate_limit: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="Requests a second per key, session or application; 0 means no limit."),
    ] = 10_000
    address_rate_limit: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Requests a second per remote address; 0 means no limit. Loopback is never limited.",
        ),
    ] = 1000
    stream_limit: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Logs and events that one user may read at the same time.")
    ] = 200
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(description="Address ranges (CIDR) of proxies whose X-Forwarded-For and -Proto are believed."),
    ] = ()
    monitoring_access: Annotated[
        MonitoringAccess,
        Meta(description="Who may read the monitoring APIs: this machine only, whoever has signed in, or anyone."),
    ] = MonitoringAccess.LOOPBACK
    default_cluster: Annotated[
        str,
        Meta(min_length=1, description="Cluster where none is named; under demo, unless it is set, `demo`."),
    ] = "local"
    login_attempts: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Failures per user name or address before log-in pauses.")
    ] = 5
    login_window_seconds: Annotated[int, Meta(ge=1, le=_DAY, description="How long a failed log-in counts.")] = 300
    session_seconds: Annotated[int, Meta(ge=60, le=366 * _DAY, description="How long a log-in lasts.")] = 43_200
    token_seconds: Annotated[
        int, Meta(ge=3600, le=3660 * _DAY, description="How long an application's token lasts.")
    ] = 86_400
    demo: Annotated[
        bool, Meta(description="Add a simulated cluster, `demo`, with teams, a past and people who go on working.")
    ] = False
    demo_gpus: Annotated[
        int, Meta(ge=48, le=1_000_000, description="GPUs of the simulated cluster, to the next whole node.")
    ] = 1024
    demo_nodes: Annotated[
        int,
        Meta(ge=0, le=100_000, description="Nodes of the simulated cluster; 0 means as many as demo_gpus needs."),
    ] = 0
    demo_days: Annotated[
        float, Meta(ge=0, le=366, description="Days of the simulated past, of those in which demo_speed is 1.")
    ] = 30.0
    demo_speed: Annotated[
        float, Meta(ge=0.01, le=1000, description="Simulated seconds in a second, for all that simulated pods do.")
    ] = 1.0
    seed: Annotated[
        int, Meta(ge=0, le=2**53, description="Another number is another simulated cluster; the same is the same.")
    ] = 1
    gpus: Annotated[
        int,
        Meta(ge=-1, le=1024, description="Pretend GPUs of this machine, for tests; -1 means those that are there."),
    ] = -1
    containment: Annotated[
        Containment, Meta(description="How local jobs are kept apart; auto takes the strongest this machine allows.")
    ] = Containment.AUTO
    local_trust: Annotated[
        LocalTrust,
        Meta(description="Who may run local jobs where they cannot be kept from the platform: admins, or everyone."),
    ] = LocalTrust.ADMINS
    local_user: Annotated[
        int,
        Meta(
            ge=0,
            le=4_000_000_000,
            description="When the server is root, jobs of workspace n run as the user with this number plus n; "
            "0 runs them as root.",
        ),
    ] = 2_000_000_000
    local_takeover: Annotated[
        bool,
        Meta(description="Take over the local cluster of another server that is gone; its pods are given up."),
    ] = False
    log_days: Annotated[int, Meta(ge=1, le=36_600, description="How long what workloads print is kept.")] = 14
    log_limit_bytes: Annotated[
        int, Meta(ge=2**16, le=2**40, description="How much of what one pod prints is kept; the oldest goes first.")
    ] = 268_435_456
    training_days: Annotated[int, Meta(ge=1, le=36_600, description="How long training metrics are kept.")] = 90
    low_space_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=2**50,
            description="Free space of the data directory's disk below which nothing new is accepted, with SQLite; "
            "never more than a tenth of the disk.",
        ),
    ] = 268_435_456
    reserve_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=2**40,
            description="Space held back for stopping and deleting on a full disk, with SQLite; never more than a "
            "twentieth of the disk.",
        ),
    ] = 33_554_432
    prometheus_url: Annotated[
        str,
        Meta(
            description="Prometheus or VictoriaMetrics with the GPUs' metrics, user and password included if it asks "
            "for them; empty means that this machine is read itself."
        ),
    ] = ""
    prometheus_token_file: Annotated[
        str, Meta(description="File with a bearer token for prometheus_url; read at every use.", extra=_PATH)
    ] = ""
    prometheus_prefix: Annotated[str, Meta(description="What the exporter puts before the names of its metrics.")] = ""
    prometheus_node_label: Annotated[
        str, Meta(description="Label that names the node; empty means that of the exporter.")
    ] = ""
    idle_threshold: Annotated[
        float, Meta(ge=0, le=100, description="A GPU whose utilisation, in percent, is not above this is idle.")
    ] = 1.0
    sample_seconds: Annotated[
        int, Meta(ge=1, le=3600, description="How often the hardware is read, in step with the clock.")
    ] = 15
    sample_days: Annotated[int, Meta(ge=1, le=36_600, description="How long readings of GPUs are kept.")] = 30
    snapshot_seconds: Annotated[
        int, Meta(ge=60, le=3600, description="How often it is written down who holds which GPUs.")
    ] = 300
    audit_days: Annotated[
        int, Meta(ge=0, le=36_600, description="How long audit records are kept; 0 means for ever.")
    ] = 365
    idempotency_hours: Annotated[
        int, Meta(ge=1, le=8784, description="How long a repeated Idempotency-Key gets the first answer again.")
    ] = 24

    def __repr__(self) -> str:
        return f"Settings({public(self)})"  # a log line or a traceback must not show a password


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


def public(settings: Settings) -> dict[str, object]:
    """The values as they may be shown: a password inside an address is hidden."""
    values: dict[str, object] = msgspec.to_builtins(settings)
    return {name: _masked(value) if isinstance(value, str) else value for name, value in values.items()}


def _spec(field: msgspec.structs.FieldInfo) -> _Spec:
    kind, meta = get_args(field.type)
    return _Spec(field.name, kind, meta, field.default, *_words(kind, _bounds(meta)))


def _words(kind: Any, bounds: str) -> tuple[str, str, str]:
    """What a value is, what the docs say it takes, and what an error says to use."""
    if get_origin(kind) is tuple:
        return "a list of texts", "comma list", "texts with commas between them"
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
    text = _masked(raw) if isinstance(raw, str) else _masked(json.dumps(raw, default=str, ensure_ascii=False))
    short = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return json.dumps(short, ensure_ascii=False) if isinstance(raw, str) else short


def _masked(text: str) -> str:
    """Hides rather too much than too little: PostgreSQL takes a password in the query too, and few escape an @."""
    text = re.sub(r"(?i)(password\s*=\s*)[^&]*", r"\1***", text)
    text = re.sub(r"(?s)(://[^:]*):.*@", r"\1:***@", text)
    return re.sub(r"(?s)^([^:/@]*):(?!//).*@", r"\1:***@", text)


def _as_text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
