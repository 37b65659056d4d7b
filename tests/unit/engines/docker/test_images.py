"""Images are named, pulled with the login of their registry, and pulls say how far they are."""

import base64
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StokerError
from stoker.engines.docker.api.schema import ProgressDetail, PullProgress
from stoker.engines.docker.images import PullSummary, parse_image, registry_auth


@pytest.mark.parametrize(
    ("reference", "repository", "tag", "registry"),
    [
        ("busybox", "busybox", "latest", ""),
        ("busybox:1.36", "busybox", "1.36", ""),
        ("team/app", "team/app", "latest", ""),
        ("registry.example:5000/team/app", "registry.example:5000/team/app", "latest", "registry.example:5000"),
        ("registry.example:5000/app:2", "registry.example:5000/app", "2", "registry.example:5000"),
        ("localhost/app:2", "localhost/app", "2", "localhost"),
        ("app@sha256:abc", "app", "sha256:abc", ""),
    ],
)
def test_references_have_parts(reference: str, repository: str, tag: str, registry: str) -> None:
    name = parse_image(reference)
    assert (name.repository, name.tag, name.registry) == (repository, tag, registry)


@pytest.mark.parametrize("reference", ["", " x", "a b", "a\nb"])
def test_what_is_no_reference_is_refused(reference: str) -> None:
    with pytest.raises(StokerError, match="not the name of an image"):
        parse_image(reference)


def test_the_login_is_that_of_the_registry(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    secret = base64.b64encode(b"ann:pass:word").decode()
    logins = {"registry.example:5000": {"auth": secret}, "https://token.example/": {"identitytoken": "tok"}}
    path.write_bytes(msgspec.json.encode({"auths": logins, "credsStore": "x"}))

    def read(registry: str) -> dict[str, str]:
        return msgspec.json.decode(base64.urlsafe_b64decode(registry_auth(str(path), registry)))

    assert read("registry.example:5000") == {
        "username": "ann",
        "password": "pass:word",
        "serveraddress": "registry.example:5000",
    }
    assert read("token.example")["identitytoken"] == "tok"
    assert registry_auth(str(path), "other.example") == ""
    assert registry_auth("", "registry.example:5000") == ""


def test_a_file_without_logins_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for name in ("bad.json", "missing.json"):
        with pytest.raises(StokerError, match=name):
            registry_auth(str(tmp_path / name), "registry.example")


def test_a_pull_says_how_far_it_is() -> None:
    progress = PullSummary("app:1")
    assert progress.message == "pulling image app:1"
    progress.add(PullProgress("Pulling from app", "1"))
    progress.add(PullProgress("Pulling fs layer", "a"))
    progress.add(PullProgress("Downloading", "a", ProgressDetail(2**20, 4 * 2**20)))
    progress.add(PullProgress("Already exists", "b"))
    assert progress.message == "pulling image app:1: 1 MiB of 4 MiB, 1 of 2 layers done"
    progress.add(PullProgress("Download complete", "a"))
    progress.add(PullProgress("Pull complete", "a"))
    assert progress.message == "pulling image app:1: 4 MiB of 4 MiB, 2 of 2 layers done"
