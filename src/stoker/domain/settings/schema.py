"""Every setting, once. Its annotation is the only place that says what it takes, what it means and how far it goes."""

import re
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

_DAY = 86_400
_PATH = {"path": True}


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
    gpu_prices: Annotated[
        dict[str, float],
        Meta(description="What an hour of a GPU costs, by model; `*` is for all other models."),
    ] = {}
    currency: Annotated[
        str, Meta(max_length=12, description="Word or sign beside costs; empty means that they are plain numbers.")
    ] = ""
    sample_seconds: Annotated[
        int, Meta(ge=1, le=3600, description="How often the hardware is read, in step with the clock.")
    ] = 15
    sample_days: Annotated[int, Meta(ge=1, le=36_600, description="How long readings of GPUs are kept.")] = 30
    snapshot_seconds: Annotated[
        int, Meta(ge=60, le=3600, description="How often it is written down who holds which GPUs.")
    ] = 300
    webhook_private_targets: Annotated[
        bool,
        Meta(
            description="Let webhooks go to private, loopback and other addresses that are not on the public internet, "
            "and over plain HTTP."
        ),
    ] = False
    webhook_days: Annotated[
        int, Meta(ge=1, le=36_600, description="How long it is kept what was sent to webhooks, and what came of it.")
    ] = 14
    audit_days: Annotated[
        int, Meta(ge=0, le=36_600, description="How long audit records are kept; 0 means for ever.")
    ] = 365
    idempotency_hours: Annotated[
        int, Meta(ge=1, le=8784, description="How long a repeated Idempotency-Key gets the first answer again.")
    ] = 24

    def __repr__(self) -> str:
        return f"Settings({public(self)})"  # a log line or a traceback must not show a password


def public(settings: Settings) -> dict[str, object]:
    """The values as they may be shown: a password inside an address is hidden."""
    values: dict[str, object] = msgspec.to_builtins(settings)
    return {name: masked(value) if isinstance(value, str) else value for name, value in values.items()}


def masked(text: str) -> str:
    """Hides rather too much than too little: PostgreSQL takes a password in the query too, and few escape an @."""
    text = re.sub(r"(?i)(password\s*=\s*)[^&]*", r"\1***", text)
    text = re.sub(r"(?s)(://[^:]*):.*@", r"\1:***@", text)
    return re.sub(r"(?s)^([^:/@]*):(?!//).*@", r"\1:***@", text)
