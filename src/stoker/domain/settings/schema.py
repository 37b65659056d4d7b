"""The settings of a server.

Each setting is declared once; type, range, default, docs and CLI flag derive from its annotation.
"""

import re
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

_DAY_SECONDS = 86_400
_IS_PATH = {"path": True}
DEFAULT_DATA_DIR = "~/.stoker"
DEMO_DATA_DIR = "~/.stoker-demo"
"""Data directory of a demo, separate from that of a real installation unless `data_dir` is set."""


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


class MonitoringScope(StrEnum):
    FLEET = "fleet"
    WORKSPACES = "workspaces"


class ContainmentPolicy(StrEnum):
    AUTO = "auto"
    NAMESPACES = "namespaces"
    SUBREAPER = "subreaper"


class GpuFaultAction(StrEnum):
    KEEP = "keep"
    REQUEUE = "requeue"


class LocalTrust(StrEnum):
    ADMINS = "admins"
    SHARED = "shared"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. The upper limits keep values in milliseconds within 64 bits."""

    host: Annotated[str, Meta(min_length=1, description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 picks a free port.")] = 8080
    data_dir: Annotated[
        str,
        Meta(
            min_length=1,
            description="Directory for the database, logs and samples. With demo, the default is `~/.stoker-demo`.",
            extra=_IS_PATH,
        ),
    ] = DEFAULT_DATA_DIR
    database: Annotated[
        str, Meta(description="PostgreSQL URL (postgresql://...); empty means SQLite in the data directory.")
    ] = ""
    database_pool: Annotated[int, Meta(ge=1, le=200, description="Maximum number of PostgreSQL connections.")] = 10
    log_format: Annotated[LogFormat, Meta(description="Format of log lines.")] = LogFormat.TEXT
    log_level: Annotated[LogLevel, Meta(description="Minimum severity of logged lines.")] = LogLevel.INFO
    tls_cert: Annotated[
        str, Meta(description="PEM file with the certificate chain; empty means plain HTTP.", extra=_IS_PATH)
    ] = ""
    tls_key: Annotated[str, Meta(description="PEM file with the private key of tls_cert.", extra=_IS_PATH)] = ""
    body_limit_bytes: Annotated[int, Meta(ge=1024, le=2**30, description="Maximum size of a request body.")] = 2_097_152
    header_limit_bytes: Annotated[int, Meta(ge=1024, le=2**20, description="Maximum size of the request headers.")] = (
        32_768
    )
    connection_limit: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum number of open connections.")] = 1000
    peer_connection_limit: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Maximum number of open connections per IPv4 address or IPv6 /64; trusted proxies are exempt.",
        ),
    ] = 500
    request_timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=_DAY_SECONDS, description="Time limit of a request; a write may still be committed after it."),
    ] = 30.0
    key_rate_limit: Annotated[
        int,
        Meta(
            ge=0, le=1_000_000, description="Requests per second per API key, session or application; 0 means no limit."
        ),
    ] = 10_000
    address_rate_limit: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Requests per second per IPv4 address or IPv6 /64; 0 means no limit. Loopback is exempt.",
        ),
    ] = 1000
    explain_rate_limit: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Explain requests per second per API key, session or application; 0 means no limit.",
        ),
    ] = 20
    stream_limit: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Maximum number of open log and event streams per user.")
    ] = 200
    exec_limit: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Maximum number of open exec sessions per user.")
    ] = 100
    exec_rate_limit: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="Exec sessions per minute that one user may start; 0 means no limit."),
    ] = 600
    stream_patience_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=_DAY_SECONDS,
            description="How long exec sessions and log and event streams stay open while the database is unreachable, "
            "and so cannot be checked for revoked access.",
        ),
    ] = 120.0
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(description="CIDRs of proxies whose X-Forwarded-For and X-Forwarded-Proto headers are trusted."),
    ] = ()
    monitoring_access: Annotated[
        MonitoringAccess,
        Meta(
            description="Who may read the monitoring APIs: processes of this machine (its jobs need a credential), "
            "authenticated callers, or anyone."
        ),
    ] = MonitoringAccess.LOOPBACK
    monitoring_scope: Annotated[
        MonitoringScope,
        Meta(
            description="What authenticated callers other than admins see in the monitoring APIs: the whole fleet, or "
            "the GPUs that their own workspaces hold."
        ),
    ] = MonitoringScope.FLEET
    default_cluster: Annotated[
        str,
        Meta(min_length=1, description="Cluster of requests that name none. With demo, the default is `demo`."),
    ] = "local"
    login_attempts: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Failed log-ins per user name, and in total, from one IPv4 address or IPv6 /64 before further "
            "log-ins from there are blocked.",
        ),
    ] = 5
    login_window_seconds: Annotated[
        int, Meta(ge=1, le=_DAY_SECONDS, description="How long a failed log-in counts towards login_attempts.")
    ] = 300
    session_seconds: Annotated[int, Meta(ge=60, le=366 * _DAY_SECONDS, description="Lifetime of a session.")] = 43_200
    token_seconds: Annotated[
        int, Meta(ge=3600, le=3660 * _DAY_SECONDS, description="Lifetime of an application's token.")
    ] = 86_400
    demo: Annotated[
        bool, Meta(description="Add the simulated cluster `demo` with teams, a usage history and ongoing load.")
    ] = False
    demo_gpus: Annotated[
        int, Meta(ge=48, le=1_000_000, description="GPUs of the simulated cluster, rounded up to whole nodes.")
    ] = 1024
    demo_nodes: Annotated[
        int,
        Meta(ge=0, le=100_000, description="Nodes of the simulated cluster; 0 means as many as demo_gpus requires."),
    ] = 0
    demo_days: Annotated[float, Meta(ge=0, le=366, description="Days of simulated history, at a demo_speed of 1.")] = (
        30.0
    )
    demo_speed: Annotated[
        float, Meta(ge=0.01, le=1000, description="Simulated seconds per second, for the activity of simulated pods.")
    ] = 1.0
    seed: Annotated[
        int,
        Meta(ge=0, le=2**53, description="Random seed of the simulated cluster; the same seed gives the same cluster."),
    ] = 1
    gpus: Annotated[
        int,
        Meta(ge=-1, le=1024, description="Number of fake GPUs of this machine, for tests; -1 means the real ones."),
    ] = -1
    containment: Annotated[
        ContainmentPolicy,
        Meta(description="How local jobs are isolated; auto picks the strongest method this machine supports."),
    ] = ContainmentPolicy.AUTO
    local_trust: Annotated[
        LocalTrust,
        Meta(description="Who may run local jobs on a machine that cannot isolate them: admins, or everyone."),
    ] = LocalTrust.ADMINS
    local_user: Annotated[
        int,
        Meta(
            ge=0,
            le=4_000_000_000,
            description="If the server runs as root, jobs of workspace n run with the user ID of this value plus n; "
            "0 runs them as root.",
        ),
    ] = 2_000_000_000
    local_takeover: Annotated[
        bool,
        Meta(description="Take over the local cluster of a server that no longer exists; its pods are lost."),
    ] = False
    rollout_deadline_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=366 * _DAY_SECONDS,
            description="How long a replica of a new revision may take to become ready, unless its workload sets a "
            "timeout.",
        ),
    ] = 600
    rollout_rollback: Annotated[
        bool,
        Meta(description="Roll back to the last good revision when a new one misses its rollout deadline."),
    ] = True
    log_days: Annotated[int, Meta(ge=1, le=36_600, description="Days to keep workload logs.")] = 14
    log_limit_bytes: Annotated[
        int, Meta(ge=2**16, le=2**40, description="Maximum log size per pod; the oldest lines are deleted first.")
    ] = 268_435_456
    training_days: Annotated[int, Meta(ge=1, le=36_600, description="Days to keep training metrics.")] = 90
    low_space_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=2**50,
            description="Free disk space of the data directory below which new objects are rejected, with SQLite; "
            "capped at a tenth of the disk.",
        ),
    ] = 268_435_456
    reserve_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=2**40,
            description="Disk space reserved for stopping and deleting on a full disk, with SQLite; capped at a "
            "twentieth of the disk.",
        ),
    ] = 33_554_432
    prometheus_url: Annotated[
        str,
        Meta(
            description="URL of Prometheus or VictoriaMetrics with GPU metrics, including user and password if "
            "required; empty means that the GPUs of this machine are sampled directly."
        ),
    ] = ""
    prometheus_token_file: Annotated[
        str, Meta(description="File with a bearer token for prometheus_url; read for every request.", extra=_IS_PATH)
    ] = ""
    prometheus_prefix: Annotated[str, Meta(description="Prefix of the exporter's metric names.")] = ""
    prometheus_node_label: Annotated[
        str, Meta(description="Label with the node name; empty means the exporter's default.")
    ] = ""
    gpu_fault_action: Annotated[
        GpuFaultAction,
        Meta(
            description="What happens to a workload when one of its GPUs becomes faulty: it keeps running, or is "
            "requeued without using a retry."
        ),
    ] = GpuFaultAction.KEEP
    gpu_ecc_threshold: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000_000,
            description="Number of uncorrected ECC errors since the driver started at which a GPU counts as faulty.",
        ),
    ] = 1
    idle_threshold: Annotated[
        float, Meta(ge=0, le=100, description="Utilization in percent up to which a GPU counts as idle.")
    ] = 1.0
    gpu_prices: Annotated[
        dict[str, float],
        Meta(description="Price of a GPU hour by GPU model; `*` is the price of all other models."),
    ] = {}
    currency: Annotated[
        str, Meta(max_length=12, description="Currency shown with costs; empty means plain numbers.")
    ] = ""
    sample_seconds: Annotated[
        int, Meta(ge=1, le=3600, description="Interval of hardware samples, aligned to the clock.")
    ] = 15
    sample_days: Annotated[int, Meta(ge=1, le=36_600, description="Days to keep GPU samples.")] = 30
    snapshot_seconds: Annotated[
        int,
        Meta(ge=60, le=3600, description="Interval of allocation snapshots, which record the GPUs of each workload."),
    ] = 300
    snapshot_days: Annotated[int, Meta(ge=1, le=36_600, description="Days to keep allocation snapshots.")] = 90
    usage_days: Annotated[
        int,
        Meta(
            ge=1,
            le=36_600,
            description="Days (UTC) to keep usage: closed hours, daily totals and the GPU inventory.",
        ),
    ] = 400
    webhook_private_targets: Annotated[
        bool,
        Meta(description="Allow webhooks to private, loopback and other non-public addresses, and over plain HTTP."),
    ] = False
    webhook_days: Annotated[int, Meta(ge=1, le=36_600, description="Days to keep webhook deliveries.")] = 14
    audit_days: Annotated[int, Meta(ge=0, le=36_600, description="Days to keep audit records; 0 means forever.")] = 365
    idempotency_hours: Annotated[
        int, Meta(ge=1, le=8784, description="How long a repeated Idempotency-Key returns the first response.")
    ] = 24

    def __repr__(self) -> str:
        return f"Settings({redacted_settings(self)})"  # a log line or a traceback must not show a password


def redacted_settings(settings: Settings) -> dict[str, object]:
    """The values for display, with passwords in URLs redacted."""
    values: dict[str, object] = msgspec.to_builtins(settings)
    return {name: redact(value) if isinstance(value, str) else value for name, value in values.items()}


REDACTED = "***"


def redact(text: str) -> str:
    """Redact passwords, if in doubt too much: PostgreSQL also takes one in the query, and an @ is often unescaped."""
    text = re.sub(r"(?i)(password\s*=\s*)[^&]*", rf"\1{REDACTED}", text)
    text = re.sub(r"(?s)(://[^:]*):.*@", rf"\1:{REDACTED}@", text)
    return re.sub(r"(?s)^([^:/@]*):(?!//).*@", rf"\1:{REDACTED}@", text)


def is_redacted(text: str) -> bool:
    """Whether a password was removed from this text, so that it cannot be used."""
    return REDACTED in text
