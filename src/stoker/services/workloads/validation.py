"""What may be asked for: the checks a workload passes before it is accepted, and before it is changed."""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.identity import Quota
from stoker.domain.node import CONTAINED, Node
from stoker.domain.permissions import Actor
from stoker.domain.resources import MILLI, Resources
from stoker.domain.settings import LocalTrust
from stoker.domain.workload import Kind, Spec, Workload
from stoker.scheduler import Capacity, never_fits

URGENT = 150
"""From this priority on, a workspace manager has to ask."""
VARIABLE_BYTES = 9
"""The end of a variable, and what points to it."""
WITHOUT_IMAGES = frozenset({"local"})
"""Engines that run scripts: no image brings a command of its own."""


class StartLimits(Struct, frozen=True):
    """What a kernel takes when it starts a program: bytes of one variable with its name, and of all of them."""

    one: int
    all: int


START_LIMITS = {"local": StartLimits(131_071, 1_572_864)}
"""Of engines that start programs themselves; the script is not among what is limited."""


class NewWorkload(Struct, frozen=True, kw_only=True):
    """What is asked for, in our own words. An empty workspace is the caller's default one."""

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


class WorkloadEdit(Struct, frozen=True, kw_only=True):
    """What is UNSET stays. An environment variable of None is taken away."""

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

    @property
    def words(self) -> dict[str, object]:
        """What changes in place, whatever runs."""
        names = ("description", "priority", "preemptible", "timeout_seconds", "max_retry")
        return {name: value for name in names if (value := getattr(self, name)) is not UNSET}


def with_nodes(spec: Spec) -> Spec:
    """Named nodes decide how many replicas there are: one on each."""
    return structs.replace(spec, replicas=len(spec.specified_nodes)) if spec.specified_nodes else spec


def changed_spec(workload: Workload, edit: WorkloadEdit) -> Spec:
    """The spec after an edit; the same one when nothing that runs is changed."""
    spec = workload.spec
    if edit.replicas is not UNSET and (edit.specified_nodes is not UNSET or spec.specified_nodes):
        raise bad_request("replica", "it follows from specifiedNodes. Change specifiedNodes instead.")
    fields: dict[str, object] = {}
    for name in ("image", "entry_point", "replicas", "specified_nodes"):
        if (value := getattr(edit, name)) is not UNSET:
            fields[name] = value
    if edit.env is not UNSET:
        merged = {**spec.env, **edit.env}
        fields["env"] = {name: value for name, value in merged.items() if value is not None}
    resources = structs.asdict(spec.resources)
    for field, column in (("cpu", "cpu_milli"), ("gpu", "gpu_milli"), ("memory", "memory_bytes")):
        if (amount := getattr(edit, field)) is not UNSET:
            resources[column], fields[f"shown_{field}"] = amount
    return with_nodes(structs.replace(spec, resources=Resources(**resources), **fields))


def check_script(spec: Spec, kind: Kind, engine: str) -> None:
    """Where there are no images there must be a script; only an Authoring waits for somebody to come."""
    if not spec.entry_point and kind is not Kind.AUTHORING and engine in WITHOUT_IMAGES:
        raise bad_request(
            "entryPoint",
            "it is required here: this cluster runs scripts, and no image brings a command of its own. "
            'Send the script in Base64, for example "cHl0aG9uIHRyYWluLnB5" for "python train.py".',
        )


def check_start(spec: Spec, engine: str) -> None:
    """Refuse what no program could be started with."""
    limits = START_LIMITS.get(engine)
    if limits is None:
        return
    sizes = {name: len(f"{name}={value}".encode("utf-8", "replace")) for name, value in spec.env.items()}
    for name, size in sizes.items():
        if size > limits.one:
            message = f'"{name[:80]}" has {size} bytes with its name; a variable has at most {limits.one} here.'
            raise bad_request("env", message, hint="Put it into a file, or into the script.")
    total = sum(size + VARIABLE_BYTES for size in sizes.values())
    if total > limits.all:
        raise bad_request("env", f"all variables together have {total} bytes; there are at most {limits.all} here.")


def check_spec(spec: Spec, capacity: Capacity, quota: Quota, gpu_field: str = "resource.gpu") -> None:
    """Refuse what cannot be right, and what can never fit."""
    known = capacity.nodes
    if spec.resources.gpu_milli > MILLI and spec.resources.gpu_milli % MILLI:
        asked = f'"{spec.shown_gpu}" is not possible.'
        raise bad_request(gpu_field, f'{asked} Ask for whole GPUs, such as "2", or for a part of one, such as "0.5".')
    if len(set(spec.specified_nodes)) != len(spec.specified_nodes):
        raise bad_request("specifiedNodes", "a node is named twice. Name each once.")
    for name in spec.specified_nodes:
        if known and name not in known:
            raise bad_request("specifiedNodes", f'there is no node "{name}". There are: {_some(known)}.')
    reason = never_fits(spec.resources, spec.replicas, spec.specified_nodes, capacity, quota)
    if reason is not None:
        raise StokerError(ErrorCode.NEVER_FITS, reason.sentence())


def check_trust(actor: Actor, nodes: Iterable[Node], trust: LocalTrust) -> None:
    """Where jobs can reach the platform itself, only admins may run them, unless everyone is trusted."""
    if actor.admin or trust is LocalTrust.SHARED:
        return
    if any(node.labels.get(CONTAINED) == "false" for node in nodes):
        raise StokerError(
            ErrorCode.NOT_ALLOWED,
            "Not allowed: this machine cannot keep jobs from the platform, so only admins may run jobs on it.",
            hint="Ask an admin to see what `stoker check` says about local jobs.",
        )


def _some(names: Iterable[str], most: int = 5) -> str:
    listed = sorted(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
