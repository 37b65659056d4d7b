"""The options of a Docker host, and the settings that they become."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import UNSET, UnsetType

from stoker.cli.input.unset import value_or_unset

if TYPE_CHECKING:
    from stoker.wire.clusters import DockerSettings, TlsBody

C = TypeVar("C", bound=Callable[..., Any])
DETECT = "detect"
TLS_FILES = {"ca": "ca.pem", "certificate": "cert.pem", "key": "key.pem"}


def docker_options(command: C) -> C:
    for option in reversed(
        (
            click.option("--tls-dir", metavar="DIR", help="Directory with ca.pem, cert.pem and key.pem."),
            click.option("--by-reference", is_flag=True, help="--tls-dir is on the server, and is read there."),
            click.option("--node-name", metavar="NAME", help="The name of its node [default that of the host]."),
            click.option("--gpus", metavar="N", help=f'How many GPUs it has; "{DETECT}" on this machine.'),
            click.option("--gpu-model", metavar="NAME", help="The model of its GPUs."),
            click.option("--gpu-vendor", type=click.Choice(("nvidia", "amd")), help="Who made them [default nvidia]."),
            click.option("--gpu-memory", metavar="QUANTITY", help='The memory of one GPU, such as "80Gi".'),
            click.option(
                "--allowed-mount",
                "allowed_mounts",
                metavar="DIR",
                multiple=True,
                help="Directory that workloads may mount; can be repeated [default none].",
            ),
            click.option("--no-allowed-mounts", is_flag=True, help="Workloads may mount nothing."),
            click.option("--network", metavar="NAME", help='Network of containers, or "host" [default one is made].'),
            click.option(
                "--pull-policy",
                type=click.Choice(("missing", "always", "never")),
                help="When images are pulled [default missing].",
            ),
            click.option("--registry-auth-file", metavar="FILE", help="config.json of docker login, on the server."),
            click.option("--default-image", metavar="IMAGE", help="The image of workloads that name none."),
            click.option("--shm", metavar="QUANTITY", help="Size of /dev/shm [default 1Gi]."),
            click.option("--working-dir", metavar="DIR", help="Where a workload begins [default /work]."),
            click.option(
                "--foreign-stop/--no-foreign-stop",
                default=None,
                help="Whether admins may stop containers that Stoker did not create [default no].",
            ),
        )
    ):
        command = option(command)
    return command


def build_docker_settings(given: Mapping[str, Any], url: str | None, *, no_tls: bool = False) -> "DockerSettings":
    """The settings that the options name; the others are left to the server."""
    from stoker.wire.clusters import DockerSettings

    tls_dir = given["tls_dir"]
    if given["by_reference"] and tls_dir is None:
        raise click.UsageError("--by-reference goes with --tls-dir.")
    if no_tls and tls_dir is not None:
        raise click.UsageError("Give either --tls-dir or --no-tls.")
    if given["no_allowed_mounts"] and given["allowed_mounts"]:
        raise click.UsageError("Give either --allowed-mount or --no-allowed-mounts.")
    keeps_mounts = not given["allowed_mounts"] and not given["no_allowed_mounts"]
    tls: TlsBody | UnsetType | None = None if no_tls else UNSET
    if tls_dir is not None and not given["by_reference"]:
        tls = _read_tls(Path(tls_dir).expanduser())
    return DockerSettings(
        url=value_or_unset(url),
        tls=tls,
        tls_dir=tls_dir if tls_dir is not None and given["by_reference"] else UNSET,
        gpus=_parse_gpus(given["gpus"]),
        allowed_mounts=UNSET if keeps_mounts else tuple(given["allowed_mounts"]),
        **{
            name: value_or_unset(given[name])
            for name in (
                *("node_name", "gpu_model", "gpu_vendor", "gpu_memory", "network", "pull_policy"),
                *("registry_auth_file", "default_image", "shm", "working_dir", "foreign_stop"),
            )
        },
    )


def _parse_gpus(text: str | None) -> int | UnsetType | None:
    if text is None:
        return UNSET
    if text == DETECT:
        return None
    if not text.isdecimal():
        raise click.UsageError(f'--gpus: "{text}" is neither a number nor "{DETECT}".')
    return int(text)


def _read_tls(directory: Path) -> "TlsBody":
    from stoker.wire.clusters import TlsBody

    texts = {}
    for name, file in TLS_FILES.items():
        try:
            texts[name] = (directory / file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise click.UsageError(f"--tls-dir: {directory / file}: {why}.") from error
    return TlsBody(**texts)
