"""Creates the directory of a pod from its launch spec: the launch file for the shim, and the record for the engine."""

import os
import secrets
from pathlib import Path

import msgspec

from stoker.domain.errors import bad_request
from stoker.domain.metrics.report_token import ReportEndpoint
from stoker.domain.workload.spec import Kind
from stoker.engines.local import base_env
from stoker.engines.local.isolation import users
from stoker.engines.local.isolation.cgroups import CgroupControllers, PodCgroups
from stoker.engines.local.isolation.containment import sandbox_fields
from stoker.engines.local.node.orphan_processes import POD_UID_VARIABLE
from stoker.engines.local.pods.paths import LocalPaths
from stoker.engines.local.pods.pod import RECORD_FILE, LocalPod, PodRecord
from stoker.engines.local.shim import launch_file
from stoker.engines.local.shim.pod_dir import LAUNCH_FILE
from stoker.engines.model import LaunchSpec, PodAssignment
from stoker.engines.pod_env import RENDEZVOUS_VARIABLES
from stoker.engines.proxy.ports import LOOPBACK
from stoker.engines.replicas.replica import readiness_probe

IDLE_SCRIPT = "exec sleep infinity"
"""What an Authoring pod runs until somebody attaches."""


class PodRuntimeConfig(msgspec.Struct, frozen=True):
    """The settings of all pods of an engine: isolation, control groups and log size."""

    use_namespaces: bool
    cgroups: CgroupControllers = CgroupControllers()
    hidden_paths: tuple[Path, ...] = ()
    log_segment_bytes: int = 16 * 1024**2
    log_segments: int = 4
    first_uid: int = 0
    """The first uid of jobs; 0 runs jobs as the server's user."""
    report_to: ReportEndpoint | None = None


def create_pod(
    paths: LocalPaths,
    config: PodRuntimeConfig,
    launch_spec: LaunchSpec,
    assignment: PodAssignment,
    port: int,
    rendezvous_port: int,
) -> LocalPod:
    """Write the directory of a pod that has not started. The record is written last: without it the directory is not a
    pod."""
    script = launch_spec.main.entry_point or (IDLE_SCRIPT if launch_spec.kind == Kind.AUTHORING else "")
    if not script:
        raise bad_request("entryPoint", "is empty, and the local engine has no image whose command it could run.")
    work = paths.make_working_dir(launch_spec.ref.slug, assignment.rank if launch_spec.rolling_update else None)
    pod_cgroups = config.cgroups.create(assignment.uid, launch_spec.main.resources)
    record = PodRecord(
        uid=assignment.uid,
        name=assignment.name,
        workload_uid=launch_spec.ref.uid,
        slug=launch_spec.ref.slug,
        kind=launch_spec.kind,
        attempt=launch_spec.ref.attempt,
        revision=launch_spec.ref.revision,
        rank=assignment.rank,
        node=assignment.node,
        port=port,
        rendezvous_port=rendezvous_port,
        service=launch_spec.service,
        devices=tuple(device.index for device in assignment.devices if device.index is not None),
        gpu_milli=launch_spec.main.resources.gpu_milli,
        cpu_milli=launch_spec.main.resources.cpu_milli,
        check=readiness_probe(launch_spec, port),
        memory_bytes=launch_spec.main.resources.memory_bytes,
        namespaces=config.use_namespaces,
        groups=pod_cgroups.dirs,
    )
    user = users.workspace_uid(config.first_uid, launch_spec.workspace_id) if config.use_namespaces else 0
    own = base_env.build_base_env(work, users.JOB_USER_NAME if user else "")
    own |= {"PORT": str(port), "HOST": LOOPBACK} if port else {}
    report_env = config.report_to.pod_env(launch_spec.ref.uid, assignment.uid) if config.report_to else {}
    env = (
        own
        | report_env
        | dict(assignment.env)
        | (dict.fromkeys(RENDEZVOUS_VARIABLES, str(rendezvous_port)) if rendezvous_port else {})
    )
    folder = paths.pod_dir(assignment.uid)
    folder.mkdir(mode=0o700, exist_ok=True)
    sandbox = [("folder", str(work))]
    if config.use_namespaces:
        sandbox = sandbox_fields(paths.data_dir, work, paths.make_tmp_dir(folder), config.hidden_paths, user)
    if user:
        users.chown_tree(work, user)
        _write_atomic(
            folder / users.PASSWD_FILE, users.render_passwd(user, work, base_env.default_shell()).encode(), 0o644
        )
        sandbox.append(("accounts", str(folder / users.PASSWD_FILE)))
    _write_atomic(
        folder / LAUNCH_FILE,
        _encode_launch_file(
            config, launch_spec, sandbox, script, env | {POD_UID_VARIABLE: assignment.uid}, pod_cgroups
        ),
    )
    write_record(folder, record)
    return LocalPod(folder, record)


def write_record(folder: Path, record: PodRecord) -> None:
    _write_atomic(folder / RECORD_FILE, msgspec.json.encode(record))


def _encode_launch_file(
    config: PodRuntimeConfig,
    launch_spec: LaunchSpec,
    sandbox: list[tuple[str, str]],
    script: str,
    env: dict[str, str],
    pod_cgroups: PodCgroups,
) -> bytes:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise bad_request("env", f'"{name[:80]}" cannot be a variable: no "=" in the name, no NUL anywhere.')
    if "\0" in script:
        raise bad_request("entryPoint", "holds a NUL character.")
    per_process = launch_spec.main.resources.memory_bytes if config.cgroups.memory is None else 0
    return launch_file.encode(
        [
            *sandbox,
            ("script", script),
            ("shell", base_env.default_shell()),
            *(("env", f"{name}={value}") for name, value in env.items()),
            *(("group", door) for door in pod_cgroups.procs_files),
            ("kill-count", pod_cgroups.oom_events_file),
            ("cpu-limit", pod_cgroups.cpu_limit_file),
            ("data-limit", str(per_process)),
            ("restart", str(int(launch_spec.restart_on_exit))),
            ("segment-bytes", str(config.log_segment_bytes)),
            ("segments", str(config.log_segments)),
        ]
    )


def _write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically, also when two engines write it at the same time."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, mode)  # independent of the server's umask
        file.write(data)
    new.replace(path)
