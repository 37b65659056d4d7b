"""Builds the body of a submission from a file, options that override it, and defaults."""

import base64
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.cli.input.display_name import derive_display_name
from stoker.cli.input.time_params import DurationParam, InstantParam
from stoker.domain.workload.spec import NO_IMAGE

C = TypeVar("C", bound=Callable[..., Any])
CANNOT_ENTER_EXIT_CODE = 126
"""The exit code of a job that could not enter its directory, as the shell uses it for commands that cannot run."""
DEFAULT_RESOURCES = {"cpu": "1", "memory": "1Gi", "gpu": "0", "replica": 1}
FIELD_BY_OPTION = {
    "image": "image",
    "workspace": "workspaceId",
    "description": "description",
    "priority": "priority",
    "timeout": "timeout",
    "max_retry": "maxRetry",
    "preemptible": "preemptible",
}
RUN_OPTIONS = (
    click.option("--name", metavar="NAME", help="Display name [default derived from the command]."),
    click.option("--cpu", metavar="QUANTITY", help='CPU cores per replica, such as "4" or "500m" [default 1].'),
    click.option("--memory", metavar="QUANTITY", help='Memory per replica, such as "16Gi" [default 1Gi].'),
    click.option("--gpu", metavar="QUANTITY", help="GPUs per replica [default 0]."),
    click.option(
        "--image",
        metavar="IMAGE",
        help=f"Container image; refused where a cluster, such as the local one, uses none [default {NO_IMAGE}].",
    ),
    click.option(
        "--env",
        "-e",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="Environment variable; without a value, that of this shell.",
    ),
    click.option("--workspace", "-w", metavar="NAME", help="Workspace [default your default workspace]."),
    click.option("--cluster", metavar="NAME", help="In your workspace on this cluster [default any cluster]."),
    click.option("--priority", type=click.IntRange(0, 2), help="0 normal, 1 high, 2 highest."),
    click.option("--timeout", type=DurationParam(), help="Stop it after this long, such as 2h."),
    click.option("--preemptible", is_flag=True, default=None, help="May borrow quota, and may be preempted."),
    click.option("--description", metavar="TEXT", help="Description."),
)
SUBMIT_OPTIONS = (
    click.option("--kind", metavar="KIND", help="Job, PyTorchJob, Deployment, StatefulSet or Authoring [default Job]."),
    click.option("--script", metavar="TEXT", help="Shell script to run."),
    click.option("--script-file", metavar="FILE", help="File with the shell script to run."),
    click.option("--replicas", type=click.IntRange(min=1), help="Number of replicas, started together [default 1]."),
    click.option("--max-retry", type=click.IntRange(0, 50), help="Number of retries after a failure [default 0]."),
    click.option("--node", "nodes", metavar="NAME", multiple=True, help="One replica on this node; can be repeated."),
    click.option("--label", "labels", metavar="NAME=VALUE", multiple=True, help="Label; can be repeated."),
    click.option("--port", type=click.IntRange(1, 65535), help="Expose this port as a service."),
    click.option(
        "--after", metavar="WORKLOAD", multiple=True, help="Start after this workload has succeeded; an id or a name."
    ),
    click.option(
        "--start-after", type=InstantParam(ago=False), metavar="TIME", help="Earliest start, such as 2h or an instant."
    ),
)


def job_options(*, more: bool = False) -> Callable[[C], C]:
    def add(command: C) -> C:
        for option in reversed((*RUN_OPTIONS, *SUBMIT_OPTIONS) if more else RUN_OPTIONS):
            command = option(command)
        return command

    return add


def build_job_body(given: Mapping[str, Any], command: tuple[str, ...], file: str | None = None) -> dict[str, Any]:
    """The body of a create."""
    body = _read_job_file(file) if file else {}
    for option, field in FIELD_BY_OPTION.items():
        if given.get(option) is not None:
            body[field] = given[option]
    _set_script(body, given, command)
    _set_resources(body, given)
    kind = given.get("kind")
    if kind or "groupVersionKind" not in body:
        body["groupVersionKind"] = {"kind": kind or "Job", "version": "v1"}
    if not (file or "entryPoint" in body or given.get("image") or kind == "Authoring"):
        raise click.UsageError("Say what to run: after --, by --script, by --script-file, or in a file by -f.")
    for field, named in (("env", given["env"]), ("customerLabels", given.get("labels", ()))):
        if texts := {**_string_map(body.get(field)), **parse_pairs(named, from_environment=field == "env")}:
            body[field] = texts
    if given.get("nodes"):
        body["specifiedNodes"] = list(given["nodes"])
    if given.get("port"):
        body["service"] = {"port": given["port"]}
    if start := given.get("start_after"):
        body["startAfter"] = start
    body.setdefault("image", NO_IMAGE)
    body["displayName"] = given.get("name") or body.get("displayName") or derive_display_name(command, file)
    return body


def to_script(command: tuple[str, ...]) -> str:
    """One word with spaces is a shell command line; several words are a program and its arguments."""
    return command[0] if len(command) == 1 else shlex.join(command)


def _set_script(body: dict[str, Any], given: Mapping[str, Any], command: tuple[str, ...]) -> None:
    """Send the plain text of `script` as the entry point."""
    plain = body.pop("script", None)
    if plain is not None and "entryPoint" in body:
        raise click.UsageError("The file has both script and entryPoint. Leave one out.")
    path = given.get("script_file")
    ways = [
        each
        for each in (to_script(command) if command else None, given.get("script"), path and read_text(path))
        if each is not None
    ]
    if len(ways) > 1:
        raise click.UsageError("Say what to run once: by --script, by --script-file, or after --.")
    script = ways[0] if ways else plain
    if script is not None:
        body["entryPoint"] = base64.b64encode(str(script).encode()).decode()


def has_inline_script(given: Mapping[str, Any], command: tuple[str, ...]) -> bool:
    """Whether the script is given by options rather than by the file."""
    return bool(command or given.get("script") is not None or given.get("script_file"))


def start_in_directory(body: dict[str, Any], directory: str) -> None:
    """Let the script start in a directory; a job that cannot enter it fails with a message."""
    message = shlex.quote(f"[stoker] This job was submitted from {directory} and cannot enter it.")
    entering = f"cd -- {shlex.quote(directory)} || {{ echo {message} >&2; exit {CANNOT_ENTER_EXIT_CODE}; }}\n"
    body["entryPoint"] = base64.b64encode(entering.encode() + base64.b64decode(body["entryPoint"])).decode()


def _set_resources(body: dict[str, Any], given: Mapping[str, Any]) -> None:
    size = body.get("resource")
    if size is not None and not isinstance(size, dict):
        raise click.UsageError("resource: use cpu, memory, gpu and replica, one a line.")
    flags = {name: given.get("replicas" if name == "replica" else name) for name in DEFAULT_RESOURCES}
    known = {**DEFAULT_RESOURCES, **(size or {}), **{name: value for name, value in flags.items() if value is not None}}
    body["resource"] = {name: value if name == "replica" else _to_text(value) for name, value in known.items()}


def _yaml_error_location(error: Exception) -> str:
    """The parser's description of an error, and its line if it is known."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f": {problem}, in line {mark.line + 1}" if mark and problem else ""


def _read_job_file(file: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(read_text(file))
    except yaml.YAMLError as error:
        raise click.UsageError(f"{file} is not YAML{_yaml_error_location(error)}.") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{file} has no fields. stoker schema says which there are.")
    return {str(name): value for name, value in found.items()}


def read_text(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not text.") from None
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}.") from error


def _string_map(mapping: object) -> dict[str, str]:
    """A mapping of the file with its numbers converted to text, as the API requires."""
    if mapping is not None and not isinstance(mapping, dict):
        raise click.UsageError("env and customerLabels are names with values, one a line.")
    return {str(name): _to_text(value) for name, value in (mapping or {}).items()}


def _to_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case None:
            return ""
        case _:
            return str(value)


def parse_pairs(words: tuple[str, ...], *, from_environment: bool) -> dict[str, str]:
    import os

    found: dict[str, str] = {}
    for pair in words:
        name, equals, value = pair.partition("=")
        if not equals and not (from_environment and name in os.environ):
            why = f"{name} is not set here" if from_environment else "it has no value"
            raise click.UsageError(f'"{pair}": {why}. Use NAME=VALUE.')
        found[name] = value if equals else os.environ[name]
    return found
