"""What is sent when a workload is submitted: a file, flags that win over it, and defaults for what neither says."""

import base64
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.cli.names import name_from
from stoker.cli.when import Duration, Moment

C = TypeVar("C", bound=Callable[..., Any])
DEFAULT_IMAGE = "python:3.12-slim"
SIZE = {"cpu": "1", "memory": "1Gi", "gpu": "0", "replica": 1}
PLAIN = {
    "image": "image",
    "workspace": "workspaceId",
    "description": "description",
    "priority": "priority",
    "timeout": "timeout",
    "max_retry": "maxRetry",
    "preemptible": "preemptible",
}
OPTIONS = (
    click.option("--name", metavar="NAME", help="Display name [default made from the command]."),
    click.option("--cpu", metavar="QUANTITY", help='CPU cores per replica, such as "4" or "500m" [default 1].'),
    click.option("--memory", metavar="QUANTITY", help='Memory per replica, such as "16Gi" [default 1Gi].'),
    click.option("--gpu", metavar="QUANTITY", help="GPUs per replica [default 0]."),
    click.option(
        "--image",
        metavar="IMAGE",
        help=f"Container image; the local engine uses none [default {DEFAULT_IMAGE}].",
    ),
    click.option(
        "--env", "-e", metavar="NAME[=VALUE]", multiple=True, help="Variable; without a value, the one set here."
    ),
    click.option("--workspace", "-w", metavar="NAME", help="Where it goes [default your default workspace]."),
    click.option("--priority", type=click.IntRange(0, 2), help="0 normal, 1 high, 2 highest."),
    click.option("--timeout", type=Duration(), help="Stop it after this long, such as 2h."),
    click.option("--preemptible", is_flag=True, default=None, help="May borrow quota, and may be preempted."),
    click.option("--description", metavar="TEXT", help="What it is for."),
)
MORE = (
    click.option("--kind", metavar="KIND", help="Job, PyTorchJob, Deployment, StatefulSet or Authoring [default Job]."),
    click.option("--script", metavar="TEXT", help="Shell script to run."),
    click.option("--script-file", metavar="FILE", help="File with the shell script to run."),
    click.option("--replicas", type=click.IntRange(min=1), help="How many at once, all or none [default 1]."),
    click.option("--max-retry", type=click.IntRange(0, 50), help="How often to try again when it fails [default 0]."),
    click.option("--node", "nodes", metavar="NAME", multiple=True, help="One replica on this node; can be repeated."),
    click.option("--label", "labels", metavar="NAME=VALUE", multiple=True, help="Label; can be repeated."),
    click.option("--port", type=click.IntRange(1, 65535), help="Offer this port as a service."),
    click.option(
        "--after", metavar="WORKLOAD", multiple=True, help="Start when this one has succeeded; an id or a name."
    ),
    click.option("--start-after", type=Moment(ago=False), metavar="TIME", help="Not before, such as 2h or an instant."),
)


def job_options(*, more: bool = False) -> Callable[[C], C]:
    def add(command: C) -> C:
        for option in reversed((*OPTIONS, *MORE) if more else OPTIONS):
            command = option(command)
        return command

    return add


def job_body(
    given: Mapping[str, Any], command: tuple[str, ...], file: str | None = None, folder: str = ""
) -> dict[str, Any]:
    """The body of a create. `folder` is where the command begins, if it can."""
    body = _read(file) if file else {}
    for option, field in PLAIN.items():
        if given.get(option) is not None:
            body[field] = given[option]
    _put_script(body, given, command, folder)
    _put_size(body, given)
    kind = given.get("kind")
    if kind or "groupVersionKind" not in body:
        body["groupVersionKind"] = {"kind": kind or "Job", "version": "v1"}
    if not (file or "entryPoint" in body or given.get("image") or kind == "Authoring"):
        raise click.UsageError("Say what to run: after --, by --script, by --script-file, or in a file by -f.")
    for field, named in (("env", given["env"]), ("customerLabels", given.get("labels", ()))):
        if texts := {**_texts(body.get(field)), **pairs(named, from_environment=field == "env")}:
            body[field] = texts
    if given.get("nodes"):
        body["specifiedNodes"] = list(given["nodes"])
    if given.get("port"):
        body["service"] = {"port": given["port"]}
    if start := given.get("start_after"):
        body["startAfter"] = start
    body.setdefault("image", DEFAULT_IMAGE)
    body["displayName"] = given.get("name") or body.get("displayName") or name_from(command, file)
    return body


def script_of(command: tuple[str, ...]) -> str:
    """One word with blanks in it is a line for the shell; several are a program and its arguments."""
    return command[0] if len(command) == 1 else shlex.join(command)


def _put_script(body: dict[str, Any], given: Mapping[str, Any], command: tuple[str, ...], folder: str) -> None:
    """`script` is plain text; it is sent as the entry point."""
    plain = body.pop("script", None)
    if plain is not None and "entryPoint" in body:
        raise click.UsageError("The file has both script and entryPoint. Leave one out.")
    path = given.get("script_file")
    ways = [
        each
        for each in (script_of(command) if command else None, given.get("script"), path and text_of(path))
        if each is not None
    ]
    if len(ways) > 1:
        raise click.UsageError("Say what to run once: by --script, by --script-file, or after --.")
    script = ways[0] if ways else plain
    if script is not None:
        if folder:
            script = f"cd {shlex.quote(folder)} 2>/dev/null\n{script}"
        body["entryPoint"] = base64.b64encode(str(script).encode()).decode()


def _put_size(body: dict[str, Any], given: Mapping[str, Any]) -> None:
    size = body.get("resource")
    if size is not None and not isinstance(size, dict):
        raise click.UsageError("resource: use cpu, memory, gpu and replica, one a line.")
    flags = {name: given.get("replicas" if name == "replica" else name) for name in SIZE}
    known = {**SIZE, **(size or {}), **{name: value for name, value in flags.items() if value is not None}}
    body["resource"] = {name: value if name == "replica" else _text(value) for name, value in known.items()}


def _where(error: Exception) -> str:
    """What is wrong with a text, and in which line, as far as the parser knows."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f": {problem}, in line {mark.line + 1}" if mark and problem else ""


def _read(file: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(text_of(file))
    except yaml.YAMLError as error:
        raise click.UsageError(f"{file} is not YAML{_where(error)}.") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{file} has no fields. stoker schema says which there are.")
    return {str(name): value for name, value in found.items()}


def text_of(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not text.") from None
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}.") from error


def _texts(mapping: object) -> dict[str, str]:
    """A mapping of the file, whose numbers are texts to the API."""
    if mapping is not None and not isinstance(mapping, dict):
        raise click.UsageError("env and customerLabels are names with values, one a line.")
    return {str(name): _text(value) for name, value in (mapping or {}).items()}


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case None:
            return ""
        case _:
            return str(value)


def pairs(words: tuple[str, ...], *, from_environment: bool) -> dict[str, str]:
    import os

    found: dict[str, str] = {}
    for pair in words:
        name, equals, value = pair.partition("=")
        if not equals and not (from_environment and name in os.environ):
            why = f"{name} is not set here" if from_environment else "it has no value"
            raise click.UsageError(f'"{pair}": {why}. Use NAME=VALUE.')
        found[name] = value if equals else os.environ[name]
    return found
