"""Confirmations before a user is removed or becomes an admin."""

import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import MANAGEMENT_PATH, FakeServer, counted, user, workload

LEFT = [workload("train-b2c4d"), workload("eval-x5z6q", "Pending")]


def known(*left: dict[str, object]) -> FakeServer:
    return FakeServer(
        {
            "GET /users/li.wei": (200, user()),
            "DELETE /users/li.wei": (204, None),
            f"GET {MANAGEMENT_PATH}": (200, counted(*left)),
            f"POST {MANAGEMENT_PATH}/stop": (204, None),
        }
    )


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody can be asked."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)


SAID = "li.wei still has 2 workloads: train-b2c4d, eval-x5z6q.\n"


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize(("answer", "stopped"), [("y\ny\n", True), ("y\nn\n", False)])
def test_a_delete_says_what_still_runs_and_offers_to_stop_it(stoker: RunStoker, answer: str, stopped: bool) -> None:
    server = known(*LEFT)
    done = stoker("user", "delete", "li.wei", server=server, stdin=answer)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith(SAID)
    assert "Stop these workloads first? [y/N]" in done.stderr
    assert server.bodies() == ([{"workloadIds": ["train-b2c4d", "eval-x5z6q"]}] if stopped else [])
    asked = server.asked_for("GET", MANAGEMENT_PATH)[0].url.params
    assert (asked["userId"], asked["phase"]) == ("id-of-li.wei", "Pending,Running,Updating")
    assert len(server.asked_for("DELETE", "/api/stoker/v1/users/li.wei")) == 1
    assert ("To stop them: stoker stop train-b2c4d eval-x5z6q" in done.stderr) is not stopped


@pytest.mark.usefixtures("person")
def test_who_does_not_want_to_delete_stops_nothing(stoker: RunStoker) -> None:
    server = known(*LEFT)
    done = stoker("user", "delete", "li.wei", server=server, stdin="n\n")
    assert done.exit_code == 1
    assert not [request for request in server.asked if request.method != "GET"]


@pytest.mark.parametrize(("words", "stopped"), [(("--stop",), True), (("--keep",), False), ((), False)])
def test_a_script_says_what_becomes_of_what_runs(stoker: RunStoker, words: tuple[str, ...], stopped: bool) -> None:
    server = known(*LEFT)
    done = stoker("user", "delete", "li.wei", "--yes", *words, server=server)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith(SAID)
    assert bool(server.asked_for("POST", f"{MANAGEMENT_PATH}/stop")) is stopped


def test_of_whom_nothing_runs_nothing_is_said(stoker: RunStoker) -> None:
    done = stoker("user", "delete", "li.wei", "--yes", server=known())
    assert (done.exit_code, done.stdout, done.stderr) == (0, "Deleted user li.wei.\n", "")


@pytest.mark.parametrize("words", [(), ("--admin", "--workspace", "vision"), ("--workspace-role", "viewer")])
def test_an_application_is_a_member_or_an_admin_and_is_asked_which(stoker: RunStoker, words: tuple[str, ...]) -> None:
    server = FakeServer()
    failed = stoker("app", "create", "ci", *words, server=server)
    assert (failed.exit_code, server.asked) == (2, [])
    assert "--workspace" in failed.stderr
    assert "--admin" in failed.stderr
