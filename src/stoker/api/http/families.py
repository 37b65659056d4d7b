"""The five API families: their paths, and how each wraps a result and renders an error.

A family changes the form of a response, never its content.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from stoker.api.http import resources
from stoker.api.http.error_bodies import (
    AggregationError,
    ManagementError,
    MonitoringError,
    NativeError,
    RunaiError,
    aggregation_error,
    management_error,
    monitoring_error,
    native_error,
    runai_error,
)
from stoker.api.http.resources import Resource
from stoker.domain.errors import StokerError
from stoker.wire.timestamps import encode_timestamp

_HEADER_NAMES = {"idempotency_key": "Idempotency-Key"}
_WORKLOAD_FIELD_NAMES = {
    "display_name": "displayName",
    "entry_point": "entryPoint",
    "replicas": "replica",
    "resources.gpu": "resource.gpu",
    "specified_nodes": "specifiedNodes",
}

encode_json = msgspec.json.Encoder(enc_hook=encode_timestamp).encode


class ApiFamily(Struct, frozen=True):
    """`prefixes` also decide which family renders the error of an unknown path."""

    name: str
    title: str
    prefixes: tuple[str, ...]
    resources: tuple[Resource, ...]
    wrap_result: Callable[[bytes, str], bytes]
    render_error: Callable[[StokerError, int, str], Any]
    error_type: type[Struct]
    envelope: dict[str, Any] | None = None
    accept_snake_case: bool = False
    """Query parameters may also be spelled in snake_case."""
    accept_dotted_enums: bool = False
    """Values of an enum may be preceded by its name, as in `SortOrder.asc`."""
    accept_json_string: bool = False
    """A body may be a JSON string that contains JSON."""
    missing_name_message: str = ""
    """The message of the 400 when a name in the path is empty; without one such a path is a 404."""
    field_names: Mapping[str, str] = {}
    """Wire names of the domain fields that services name in errors; other fields have the same name."""
    field_hints: Mapping[str, str] = {}
    """For a domain field: the hint of this family when an error about the field has none."""

    def with_wire_field(self, error: StokerError) -> StokerError:
        """An error of a service with the field named as in this family's requests."""
        if error.field not in self.field_names:
            return error
        return error.with_field(self.field_names[error.field], self.field_hints.get(error.field, ""))

    def to_error(self, error: StokerError, status: int, trace_id: str) -> Any:
        return self.render_error(self.with_wire_field(error), status, trace_id)


def _no_envelope(result: bytes, trace_id: str) -> bytes:
    return result


def _monitoring_envelope(result: bytes, trace_id: str) -> bytes:
    return b'{"code":0,"message":"success","data":%b,"traceId":"%b"}' % (result, trace_id.encode())


def _aggregation_envelope(result: bytes, trace_id: str) -> bytes:
    return b'{"code":200,"message":"success","data":%b}' % result


MANAGEMENT = ApiFamily(
    "management",
    "Submit and manage workloads",
    ("/api/custom",),
    resources.MANAGEMENT,
    _no_envelope,
    management_error,
    ManagementError,
    field_names={**_HEADER_NAMES, **_WORKLOAD_FIELD_NAMES},
    field_hints={"entry_point": 'Send the script in Base64, for example "cHl0aG9uIHRyYWluLnB5" for "python train.py".'},
)
MONITORING = ApiFamily(
    "monitoring",
    "Monitor workloads and clusters",
    ("/api/workloads", "/api/workloadMetadata", "/api/clusters"),
    resources.MONITORING,
    _monitoring_envelope,
    monitoring_error,
    MonitoringError,
    envelope={"code": 0, "message": "success", "data": None, "traceId": ""},
    accept_snake_case=True,
    missing_name_message="workloadUid is required",
)
AGGREGATION = ApiFamily(
    "aggregation",
    "Hourly GPU usage",
    ("/api/v1/gpu-aggregation",),
    resources.AGGREGATION,
    _aggregation_envelope,
    aggregation_error,
    AggregationError,
    envelope={"code": 200, "message": "success", "data": None},
    accept_snake_case=True,
)
RUNAI = ApiFamily(
    "runai",
    "Compatible with the Run:ai API",
    ("/api/v1", "/api/v2", "/v1/k8s"),
    resources.RUNAI,
    _no_envelope,
    runai_error,
    RunaiError,
    accept_dotted_enums=True,
    accept_json_string=True,
    field_names={
        **_HEADER_NAMES,
        **_WORKLOAD_FIELD_NAMES,
        "display_name": "name",
        "entry_point": "spec.command",
        "env": "spec.environmentVariables",
        "resources.gpu": "spec.compute.gpuDevicesRequest",
    },
)
NATIVE = ApiFamily(
    "native",
    "Stoker's own API",
    ("/api/stoker",),
    resources.NATIVE,
    _no_envelope,
    native_error,
    NativeError,
    field_names={
        **_HEADER_NAMES,
        **_WORKLOAD_FIELD_NAMES,
        "current_password": "currentPassword",
        "default_workspace": "defaultWorkspace",
        "expires_at": "expiresAt",
    },
)
FAMILIES = (NATIVE, MANAGEMENT, MONITORING, AGGREGATION, RUNAI)
_BY_PREFIX = sorted(
    ((prefix, family) for family in FAMILIES for prefix in family.prefixes), key=lambda pair: -len(pair[0])
)


def family_for_path(path: str) -> ApiFamily:
    """The family that renders errors at this path; native outside all prefixes."""
    for prefix, family in _BY_PREFIX:
        if path == prefix or path.startswith(prefix + "/"):
            return family
    return NATIVE
