"""`stoker cluster` and `--cluster`, against a real server."""

from pathlib import Path

import pytest
from tests.api.cli.conftest import Terminal
from tests.certificates import certificate_of

pytestmark = pytest.mark.slow

URL = "unix:///nowhere/docker.sock"


def test_a_cluster_comes_is_changed_and_goes(terminal: Terminal) -> None:
    added = terminal.type("cluster", "add", "lab", "--docker", URL, "--gpus", "2", "--allowed-mount", "/data")
    assert added.returncode == 0, added.stderr
    assert "Added cluster lab." in added.stdout
    assert "✗ socket: There is no socket /nowhere/docker.sock." in added.stdout
    assert "stoker workspace create NAME --cluster lab" in added.stdout
    table = terminal.ok("cluster", "list")
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [["lab", "docker"], ["local", "local"]]
    words = ("--gpus", "detect", "--no-allowed-mounts", "--shm", "8Gi", "--foreign-stop", "--description", "The lab.")
    edited = terminal.json("cluster", "edit", "lab", *words)
    settings = edited["docker"]
    assert (settings["gpus"], settings["allowedMounts"], settings["shm"]) == (None, [], "8Gi")
    assert (settings["foreignStop"], edited["description"]) == (True, "The lab.")
    described = terminal.ok("cluster", "describe", "lab")
    assert "ADDRESS" in described
    assert URL in described
    assert "ADDRESS" not in terminal.ok("cluster", "describe", "local")
    assert "Removed cluster lab." in terminal.ok("cluster", "remove", "lab", "--yes")
    assert terminal.type("cluster", "describe", "lab").returncode == 3


def test_a_check_says_what_to_do_and_fails_when_something_is_broken(terminal: Terminal) -> None:
    terminal.ok("cluster", "add", "gone", "--docker", URL)
    checked = terminal.type("cluster", "check", "gone")
    assert checked.returncode == 1
    assert "    Start Docker: systemctl start docker" in checked.stdout
    assert terminal.type("cluster", "check", "gone", "--json").returncode == 1
    assert terminal.type("cluster", "check", "local").returncode == 0
    assert terminal.json("cluster", "check", "local")["ok"] is True
    terminal.ok("cluster", "remove", "gone", "--yes")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "x"), "Say what it is, for example --docker"),
        (("add", "x", "--docker", "http://host"), "is neither unix:///PATH nor tcp://HOST:PORT"),
        (("add", "local", "--docker", URL), 'There is already a cluster "local"'),
        (("add", "x", "--docker", URL, "--gpus", "many"), '"many" is neither a number nor "detect"'),
        (("add", "x", "--docker", URL, "--by-reference"), "--by-reference goes with --tls-dir"),
        (("add", "x", "--docker", "tcp://h", "--tls-dir", "/nowhere"), "/nowhere/ca.pem: No such file or directory."),
        (("add", "x", "--docker", URL, "--colour", "red"), "No such option"),
        (("edit", "local"), "Say what to change"),
        (("edit", "local", "--gpus", "1"), 'Cluster "local" comes with the server'),
        (("remove", "local", "--yes"), 'Cluster "local" comes with the server'),
    ],
)
def test_bad_input_is_named(terminal: Terminal, words: tuple[str, ...], message: str) -> None:
    done = terminal.type("cluster", *words)
    assert done.returncode != 0
    assert message in done.stderr


def test_certificates_are_sent_from_a_directory_or_named_on_the_server(terminal: Terminal, tmp_path: Path) -> None:
    made = certificate_of("client", tmp_path)
    (tmp_path / "ca.pem").write_text(made.cert.read_text())
    words = ("--docker", "tcp://127.0.0.1:9", "--tls-dir", str(tmp_path))
    assert terminal.json("cluster", "add", "sent", *words)["hasCredential"] is True
    assert terminal.json("cluster", "add", "named", *words, "--by-reference")["hasCredential"] is True
    assert terminal.json("cluster", "edit", "named", "--no-tls")["hasCredential"] is False
    for name in ("sent", "named"):
        terminal.ok("cluster", "remove", name, "--yes")


def test_a_workload_goes_to_the_workspace_on_the_named_cluster(terminal: Terminal) -> None:
    terminal.ok("cluster", "add", "far", "--docker", URL, "--default-image", "ubuntu")
    submit = ("submit", "--cluster", "far", "--not-here", "--script", "true")
    none = terminal.type(*submit)
    assert (none.returncode, 'You have no workspace on cluster "far".' in none.stderr) == (2, True)
    assert "stoker workspace create NAME --cluster far" in none.stderr
    terminal.ok("workspace", "create", "one", "--cluster", "far")
    made = terminal.json(*submit)["workloadId"]
    assert terminal.json("describe", made)["workspaceId"] == "one"
    terminal.ok("workspace", "create", "two", "--cluster", "far")
    several = terminal.type(*submit)
    assert (several.returncode, "Add --workspace." in several.stderr) == (2, True)
    assert terminal.json("describe", terminal.json(*submit, "-w", "two")["workloadId"])["workspaceId"] == "two"
    wrong = terminal.type(*submit, "-w", "default")
    assert 'Workspace "default" is not on cluster "far"' in wrong.stderr
    here = terminal.json("submit", "--cluster", "local", "--not-here", "--script", "true")["workloadId"]
    assert terminal.json("describe", here)["workspaceId"] == "default"
    refused = terminal.type("cluster", "remove", "far", "--yes")
    assert refused.returncode != 0
    assert "--release" in refused.stderr
    assert "Removed cluster far." in terminal.ok("cluster", "remove", "far", "--release", "--yes")
