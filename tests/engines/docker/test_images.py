"""Images are pulled from a registry of the tests, with its credentials, and pulls can be watched and stopped."""

import asyncio
import base64
import contextlib
import io
import os
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.engines.docker.daemon import IMAGE, SHELL_LESS_IMAGE, DockerDaemon
from tests.engines.docker.harness import DockerHarness, new_spec

from stoker.domain.workload.phase import PodPhase
from stoker.engines.docker import PullPolicy
from stoker.engines.docker.starter import PULLING

PORT = 5000
REGISTRY = f"127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def registry(docker_daemon: DockerDaemon) -> Iterator[str]:
    folder = docker_daemon.folder / "registry"
    folder.mkdir()
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder)}},
        "http": {"addr": REGISTRY},
    }
    (folder / "config.yml").write_bytes(msgspec.json.encode(config))
    process = docker_daemon.spawn(docker_daemon.programs / "docker-registry", "serve", folder / "config.yml")
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT)):
            break
        time.sleep(0.05)
    yield REGISTRY
    _end(process)


def push(daemon: DockerDaemon, source: str, name: str) -> str:
    """Push an image to the registry and remove it from the host."""
    reference = f"{REGISTRY}/{name}"
    daemon.docker("tag", source, reference)
    daemon.docker("push", reference)
    daemon.docker("rmi", reference)
    return reference


def test_a_missing_image_is_pulled_while_a_message_says_so(
    harness: DockerHarness, docker_daemon: DockerDaemon, registry: str
) -> None:
    reference = push(docker_daemon, _large_image(docker_daemon), "team/large:1")
    docker_daemon.docker("rmi", "stoker-test/large:1")
    harness.open(pull_policy=PullPolicy.MISSING)
    uid = harness.pod("echo pulled", image=reference)
    assert harness.end(uid, 60.0).exit_code == 0
    assert harness.lines(uid) == ["pulled"]
    pulls = [event for event in harness.events if event.reason == PULLING]
    assert pulls
    assert f"pulling image {reference}" in pulls[0].message
    assert pulls[0].pending_pods == (uid,)
    again = harness.pod("echo there", image=reference)
    assert harness.end(again).exit_code == 0


def test_an_image_that_the_registry_does_not_have_is_named_and_tried_again(
    harness: DockerHarness, docker_daemon: DockerDaemon, registry: str
) -> None:
    harness.open(pull_policy=PullPolicy.MISSING)
    reference = f"{registry}/team/late:1"
    spec = harness.launch("echo late", image=reference)
    harness.wait(lambda: any(f"The image {reference} cannot be pulled" in event.message for event in harness.events))
    assert harness.run(harness.engine.pods_of(spec.ref)) == frozenset()
    push(docker_daemon, IMAGE, "team/late:1")
    assert harness.end(spec.pods[0].uid, 30.0).exit_code == 0


def test_a_pull_ends_with_its_workload(harness: DockerHarness, registry: str) -> None:
    harness.open(pull_policy=PullPolicy.MISSING)
    spec = harness.launch("true", image=f"{registry}/team/never:1")
    harness.wait(lambda: bool(harness.events))
    harness.stop(spec)
    harness.events.clear()
    assert harness.run(harness.engine.pods_of(spec.ref)) == frozenset()
    harness.open()
    harness.wait(lambda: bool(harness.reports))
    assert harness.events == []


def test_a_pulled_image_that_cannot_run_the_entry_point_fails_the_pod(
    harness: DockerHarness, docker_daemon: DockerDaemon, registry: str
) -> None:
    reference = push(docker_daemon, SHELL_LESS_IMAGE, "team/no-shell:1")
    harness.open(pull_policy=PullPolicy.MISSING)
    spec = harness.launch("echo hi", image=reference)
    failed = harness.end(spec.pods[0].uid)
    assert failed.phase is PodPhase.FAILED
    assert "has no /bin/sh" in failed.message
    assert harness.run(harness.engine.pods_of(spec.ref)) == {spec.pods[0].uid}
    harness.run(harness.engine.release(spec.ref))
    harness.wait(lambda: spec.pods[0].uid not in harness.seen)


def test_always_pulls_what_was_pushed_since(harness: DockerHarness, docker_daemon: DockerDaemon, registry: str) -> None:
    reference = push(docker_daemon, SHELL_LESS_IMAGE, "team/moving:1")
    docker_daemon.docker("pull", reference)
    docker_daemon.docker("tag", IMAGE, f"{REGISTRY}/team/moving:2")
    docker_daemon.docker("push", f"{REGISTRY}/team/moving:2")
    _retag_in_registry(docker_daemon, "team/moving", "2", "1")
    harness.open(pull_policy=PullPolicy.ALWAYS)
    assert harness.end(harness.pod("echo new", image=reference), 30.0).exit_code == 0


def test_credentials_come_from_the_file_that_the_cluster_names(
    harness: DockerHarness, docker_daemon: DockerDaemon, tmp_path: Path
) -> None:
    """The registry gets the login: a listener in its place writes the request down."""
    auth = base64.b64encode(b"ann:secret").decode()
    (tmp_path / "config.json").write_bytes(msgspec.json.encode({"auths": {"127.0.0.1:5001": {"auth": auth}}}))
    with socket.create_server(("127.0.0.1", 5001)) as listener:
        harness.open(pull_policy=PullPolicy.MISSING, registry_auth_file=str(tmp_path / "config.json"))
        spec = new_spec("true", image="127.0.0.1:5001/team/app:1")
        harness.run(harness.engine.apply(spec))
        listener.settimeout(20)
        heard = harness.run(asyncio.to_thread(_challenge_until_login, listener))
    assert f"Basic {auth}" in heard
    harness.stop(spec)


def _challenge_until_login(listener: socket.socket) -> str:
    """Answer every request with a challenge, until one has a login."""
    answer = (
        b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="tests"\r\n'
        b"Docker-Distribution-Api-Version: registry/2.0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    for _ in range(50):
        connection, _ = listener.accept()
        with connection:
            request = connection.recv(65_536).decode("latin-1")
            if "Authorization:" in request:
                return request
            connection.sendall(answer)
    return ""


def _large_image(daemon: DockerDaemon) -> str:
    """The image of the tests with some megabytes that do not compress."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        busybox = (daemon.programs / "busybox").resolve().read_bytes()
        for name, content in (("bin/sh", busybox), ("ballast", os.urandom(24 * 2**20))):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    with daemon.client() as client:
        params = {"fromSrc": "-", "repo": "stoker-test/large", "tag": "1", "changes": "ENV PATH=/bin"}
        client.post("/images/create", params=params, content=buffer.getvalue()).raise_for_status()
    return "stoker-test/large:1"


def _retag_in_registry(daemon: DockerDaemon, repository: str, source: str, target: str) -> None:
    """Let a tag mean another image, as somebody else's push does."""
    tags = daemon.folder / f"registry/docker/registry/v2/repositories/{repository}/_manifests/tags"
    link = (tags / source / "current/link").read_text()
    (tags / target / "current/link").write_text(link)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)
