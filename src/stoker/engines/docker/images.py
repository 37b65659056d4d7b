"""Images on the Docker host: found, or pulled with the credentials of their registry."""

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct, field

from stoker.domain.clock import Clock
from stoker.domain.cluster.quantity import humanize_bytes
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.schema import ImageInspect, PullProgress
from stoker.engines.docker.config import DockerConfig, PullPolicy

DEFAULT_TAG = "latest"
_HUB_KEY = "https://index.docker.io/v1/"
_LAYER_DONE = {"Pull complete", "Already exists"}
_REPORT_INTERVAL_MS = 1000


class ImageName(Struct, frozen=True):
    """A reference in parts; `tag` is a tag or a digest."""

    repository: str
    tag: str

    @property
    def registry(self) -> str:
        """The host of the registry; empty is Docker's own."""
        first, slash, _ = self.repository.partition("/")
        is_host = slash and ("." in first or ":" in first or first == "localhost")
        return first if is_host else ""


class RegistryLogin(Struct, frozen=True):
    auth: str = ""
    token: str = field(name="identitytoken", default="")


class RegistryLogins(Struct, frozen=True):
    auths: dict[str, RegistryLogin] = {}


class ImageStore:
    """Pulls of one image are shared by everyone who waits for it."""

    def __init__(self, client: DockerClient, config: DockerConfig, clock: Clock) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._locks: dict[str, asyncio.Lock] = {}

    async def needs_pull(self, reference: str) -> bool:
        if self._config.pull_policy is PullPolicy.NEVER:
            return False
        return self._config.pull_policy is PullPolicy.ALWAYS or await self._client.image(reference) is None

    async def find(self, reference: str) -> ImageInspect:
        """The image, which has to be on the host."""
        check_reference(reference)
        if (image := await self._client.image(reference)) is not None:
            return image
        if self._config.pull_policy is PullPolicy.NEVER:
            raise StokerError(
                ErrorCode.UNSCHEDULABLE,
                f"The Docker host does not have the image {reference}, and this cluster pulls none (pull_policy).",
                hint="Load the image on the host, or allow pulls.",
            )
        raise StokerError(ErrorCode.UNAVAILABLE, f"The Docker host does not have the image {reference} any more.")

    async def pull(self, reference: str, report: Callable[[str], None]) -> None:
        """Pull an image, and report the progress in sentences, about once a second."""
        name = parse_image(reference)
        auth = await asyncio.to_thread(registry_auth, self._config.registry_auth_file, name.registry)
        lock = self._locks.setdefault(reference, asyncio.Lock())
        try:
            async with lock:
                progress = PullSummary(reference)
                report(progress.message)
                reported_at = self._clock.now()
                async for line in self._client.pull(name.repository, name.tag, auth):
                    if line.error:
                        raise _pull_error(reference, line.error)
                    progress.add(line)
                    if self._clock.now() - reported_at >= _REPORT_INTERVAL_MS:
                        reported_at = self._clock.now()
                        report(progress.message)
        except StokerError as error:
            if error.message.startswith("Docker says:"):
                raise _pull_error(reference, error.message.removeprefix("Docker says:").strip()) from error
            raise


class PullSummary:
    """The progress of all layers of a pull."""

    def __init__(self, reference: str) -> None:
        self._reference = reference
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()

    def add(self, line: PullProgress) -> None:
        if not line.id or line.status.startswith("Pulling from"):
            return
        current, total = self._layers.get(line.id, (0, 0))
        if line.status == "Downloading" and line.progress:
            current, total = line.progress.current, line.progress.total
        elif line.status in _LAYER_DONE or line.status == "Download complete":
            current = total
        if line.status in _LAYER_DONE:
            self._done.add(line.id)
        self._layers[line.id] = (current, total)

    @property
    def message(self) -> str:
        text = f"pulling image {self._reference}"
        total = sum(size for _, size in self._layers.values())
        if total:
            loaded = sum(size for size, _ in self._layers.values())
            text += f": {humanize_bytes(loaded)} of {humanize_bytes(total)}"
        if self._layers:
            text += f", {len(self._done)} of {len(self._layers)} layers done"
        return text


def check_reference(reference: str) -> None:
    if not reference or reference != reference.strip() or any(c.isspace() or c == "\0" for c in reference):
        raise bad_request("image", f'"{reference[:100]}" is not the name of an image.')


def parse_image(reference: str) -> ImageName:
    check_reference(reference)
    repository, at, digest = reference.partition("@")
    head, colon, tag = repository.rpartition(":")
    if colon and "/" not in tag:
        repository = head
    else:
        tag = DEFAULT_TAG
    return ImageName(repository, digest if at else tag)


def registry_auth(path: str, registry: str) -> str:
    """The header with the login for a registry, from a `config.json` of Docker; empty if it has none. Reads a file."""
    if not path:
        return ""
    try:
        logins = msgspec.json.decode(Path(path).read_bytes(), type=RegistryLogins).auths
    except (OSError, msgspec.MsgspecError) as error:
        raise StokerError(
            ErrorCode.UNAVAILABLE,
            f"The credentials of registries cannot be read from {path}: {error}.",
            hint="The file has to be a config.json of Docker that this server may read (registry_auth_file).",
        ) from error
    wanted = {registry, f"https://{registry}", f"http://{registry}"} if registry else {_HUB_KEY, "docker.io"}
    for key, login in logins.items():
        if key.rstrip("/") in {name.rstrip("/") for name in wanted}:
            return _encode_login(login, registry or _HUB_KEY)
    return ""


def _encode_login(login: RegistryLogin, server: str) -> str:
    user = password = ""
    with contextlib.suppress(binascii.Error, UnicodeDecodeError):
        user, _, password = base64.b64decode(login.auth).decode().partition(":")
    fields = {"username": user, "password": password, "serveraddress": server}
    if login.token:
        fields = {"identitytoken": login.token, "serveraddress": server}
    return base64.urlsafe_b64encode(msgspec.json.encode(fields)).decode()


def _pull_error(reference: str, reason: str) -> StokerError:
    """Pulls that fail are tried again: registries come back, and images are pushed later."""
    return StokerError(
        ErrorCode.UNAVAILABLE,
        f"The image {reference} cannot be pulled: {reason.rstrip('.')}.",
        hint="Check the name of the image and the credentials of the registry (registry_auth_file).",
    )
