"""The inputs of a create and an update, and the checks that both must pass."""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.access.identity import Cluster, Quota
from stoker.domain.access.permissions import Actor
from stoker.domain.cluster.capabilities import Capabilities, EnvLimits, ImageUse, Owner
from stoker.domain.cluster.node import CONTAINED_LABEL, Node
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.names import natural_sort_key
from stoker.domain.settings.schema import LocalTrust
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import IMAGE_NOT_USED, Condition, ConditionType
from stoker.domain.workload.spec import NO_IMAGE, Kind, PortProtocol, ReadinessSpec, Spec
from stoker.scheduler import ClusterCapacity, check_feasibility
from stoker.services.access import REDACTED_VALUE

HIGH_PRIORITY = 150
"""Priorities from this one on need the permission WORKLOAD_SET_HIGH_PRIORITY."""
ENV_ENTRY_OVERHEAD_BYTES = 9
"""The kernel counts the terminating NUL and the pointer of each variable."""


class CreateWorkloadInput(Struct, frozen=True, kw_only=True):
    """A workload to create. An empty workspace is the caller's default workspace."""

    name: str
    kind: Kind
    spec: Spec
    workspace: str = ""
    description: str = ""
    priority: int = 80
    preemptible: bool = False
    timeout_seconds: int = 0
    max_retry: int = 0
    origin_api: str = "native"
    image_chosen: bool = False
    """Whether the user chose the image: an engine without images refuses it then, else it adds a condition."""


class UpdateWorkloadInput(Struct, frozen=True, kw_only=True):
    """UNSET fields keep their value. An environment variable of None is removed."""

    description: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    preemptible: bool | UnsetType = UNSET
    timeout_seconds: int | UnsetType = UNSET
    max_retry: int | UnsetType = UNSET
    image: str | UnsetType = UNSET
    entry_point: str | UnsetType = UNSET
    env: dict[str, str | None] | UnsetType = UNSET
    cpu: tuple[int, str] | UnsetType = UNSET
    gpu: tuple[int, str] | UnsetType = UNSET
    memory: tuple[int, str] | UnsetType = UNSET
    replicas: int | UnsetType = UNSET
    specified_nodes: tuple[str, ...] | UnsetType = UNSET
    readiness: ReadinessSpec | UnsetType | None = UNSET
    image_chosen: bool = False
    """As in CreateWorkloadInput."""

    @property
    def in_place_changes(self) -> dict[str, object]:
        """The changes that need no new pods."""
        names = ("description", "priority", "preemptible", "timeout_seconds", "max_retry")
        return {name: value for name in names if (value := getattr(self, name)) is not UNSET}


def with_replica_per_node(spec: Spec) -> Spec:
    """With specified nodes there is one replica per node."""
    return structs.replace(spec, replicas=len(spec.specified_nodes)) if spec.specified_nodes else spec


def apply_update(workload: Workload, edit: UpdateWorkloadInput) -> Spec:
    """The spec after an edit; it equals the old spec when the edit needs no new pods."""
    spec = workload.spec
    if edit.replicas is not UNSET and (edit.specified_nodes is not UNSET or spec.specified_nodes):
        raise bad_request("replicas", "it follows from the specified nodes. Change those instead.")
    fields: dict[str, object] = {}
    for name in ("image", "entry_point", "replicas", "specified_nodes", "readiness"):
        if (value := getattr(edit, name)) is not UNSET:
            fields[name] = value
    if edit.env is not UNSET:
        merged = {**spec.env, **edit.env}
        fields["env"] = {name: value for name, value in merged.items() if value is not None}
    resources = structs.asdict(spec.resources)
    for field, column in (("cpu", "cpu_milli"), ("gpu", "gpu_milli"), ("memory", "memory_bytes")):
        if (amount := getattr(edit, field)) is not UNSET:
            resources[column], fields[f"shown_{field}"] = amount
    return with_replica_per_node(structs.replace(spec, resources=Resources(**resources), **fields))


def check_script(spec: Spec, kind: Kind, capabilities: Capabilities) -> None:
    """An engine without images needs a script, except for an Authoring workload, which waits for its user."""
    if not spec.entry_point and kind is not Kind.AUTHORING and capabilities.images is ImageUse.NONE:
        raise bad_request(
            "entry_point", "it is required: this cluster runs scripts, and no image brings a command of its own."
        )


def check_unused_image(spec: Spec, capabilities: Capabilities, *, chosen: bool, at: int) -> tuple[Condition, ...]:
    """A condition that the image is not used, on an engine without images; an image that the user chose is refused."""
    if capabilities.images is not ImageUse.NONE or spec.image in {"", NO_IMAGE}:
        return ()
    if chosen:
        raise bad_request("image", "this cluster runs scripts on its machines and uses no images. Leave the image out.")
    message = f'image "{spec.image}" is not used: this cluster runs scripts on its machines'
    return (Condition(ConditionType.QUEUED, IMAGE_NOT_USED, message, at),)


def with_default_image(spec: Spec, cluster: Cluster) -> Spec:
    """The spec with an image, where pods run images: the cluster's default image if it names none."""
    if cluster.capabilities.images is not ImageUse.USED or spec.image not in {"", NO_IMAGE}:
        return spec
    if image := cluster.policy.default_image:
        return structs.replace(spec, image=image)
    raise bad_request(
        "image",
        f'it is required: cluster "{cluster.name}" runs images and has no default image.',
        hint=f"Name one, or ask an admin to set one with: stoker cluster edit {cluster.name} --default-image IMAGE",
    )


def check_readiness(spec: Spec, kind: Kind) -> None:
    """Only kinds with rolling updates have readiness, and an HTTP check needs a TCP port."""
    if spec.readiness is None:
        return
    if not kind.uses_rolling_update:
        raise bad_request("readiness", f"a {kind} has no replicas that become ready one by one. Leave it out.")
    if spec.readiness.path and (spec.service is None or spec.service.protocol is not PortProtocol.TCP):
        raise bad_request("readiness.path", "there is no TCP port to check. Give the workload a service.")


def check_env(spec: Spec, limits: EnvLimits | None) -> None:
    """Refuse variables that exceed the kernel's limits, and redacted values that a client has sent back."""
    if redacted := [name for name, value in spec.env.items() if value == REDACTED_VALUE]:
        message = (
            f'the value of "{redacted[0][:80]}" is {REDACTED_VALUE}, which replaces a value that you may not read.'
        )
        raise bad_request("env", message, hint="Leave the variable out to keep its value, or give it a real one.")
    if limits is None:
        return
    sizes = {name: len(f"{name}={value}".encode("utf-8", "replace")) for name, value in spec.env.items()}
    for name, size in sizes.items():
        if size > limits.max_variable_bytes:
            limit = limits.max_variable_bytes
            message = f'"{name[:80]}" has {size} bytes with its name; a variable has at most {limit} here.'
            raise bad_request("env", message, hint="Put it into a file, or into the script.")
    total = sum(size + ENV_ENTRY_OVERHEAD_BYTES for size in sizes.values())
    if total > limits.max_total_bytes:
        raise bad_request(
            "env", f"all variables together have {total} bytes; at most {limits.max_total_bytes} are possible here."
        )


def check_schedulable(
    spec: Spec,
    capacity: ClusterCapacity,
    quota: Quota,
    gpu_field: str = "resources.gpu",
    admission: Owner = Owner.STOKER,
) -> None:
    """Refuse a spec that is inconsistent, or that could not start even in an empty cluster. An engine that admits
    workloads by itself decides that: it may have more nodes than those that are seen."""
    known = capacity.nodes
    if spec.resources.gpu_milli > MILLI and spec.resources.gpu_milli % MILLI:
        invalid = f'"{spec.shown_gpu}" is not possible.'
        raise bad_request(gpu_field, f'{invalid} Ask for whole GPUs, such as "2", or for a part of one, such as "0.5".')
    if len(set(spec.specified_nodes)) != len(spec.specified_nodes):
        raise bad_request("specified_nodes", "a node is named twice. Name each once.")
    for name in spec.specified_nodes:
        if known and name not in known:
            raise bad_request("specified_nodes", f'there is no node "{name}". There are: {_summarize_names(known)}.')
    if admission is Owner.ENGINE:
        return
    reason = check_feasibility(spec.resources, spec.replicas, spec.specified_nodes, capacity, quota)
    if reason is not None:
        raise StokerError(ErrorCode.UNSCHEDULABLE, reason.message())


def check_local_trust(actor: Actor, nodes: Iterable[Node], trust: LocalTrust) -> None:
    """Nodes without isolation let jobs reach the platform: only admins may use them, unless `local_trust` is shared."""
    if actor.admin or trust is LocalTrust.SHARED:
        return
    if any(node.labels.get(CONTAINED_LABEL) == "false" for node in nodes):
        raise StokerError(
            ErrorCode.FORBIDDEN,
            "Not allowed: this machine cannot isolate jobs from the platform, so only admins may run jobs on it.",
            hint="Ask an admin to see what `stoker check` says about local jobs.",
        )


def _summarize_names(names: Iterable[str], limit: int = 5) -> str:
    ordered = sorted(names, key=natural_sort_key)
    return ", ".join(ordered[:limit]) + (f" and {len(ordered) - limit} more" if len(ordered) > limit else "")
