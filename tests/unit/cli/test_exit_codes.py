"""How verbs fail: the exit code, the sentence on stderr, and the next command to type."""

import httpx
import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import Answer, FakeServer, problem

from stoker.client import DEFAULT_SERVER


def refusing(status: int, code: str, message: str, hint: str = "") -> FakeServer:
    return FakeServer({"GET /users/x": (status, problem(code, message, hint))})


@pytest.mark.parametrize(
    ("status", "code", "message", "exit_code", "following"),
    [
        (404, "not_found", 'There is no user "x", or you may not see it.', 3, "stoker user list"),
        (401, "not_signed_in", "The token has expired.", 4, "stoker login"),
        (403, "not_allowed", "Not allowed: user.read is for admins.", 4, "stoker whoami"),
        (400, "bad_request", "name: too long.", 2, "stoker user show --help"),
        (409, "conflict", "It is the last admin.", 1, ""),
        (500, "internal", "Something unexpected went wrong.", 1, "stoker check"),
    ],
)
def test_each_kind_of_failure_has_its_exit_code_and_its_next_command(
    stoker: RunStoker, status: int, code: str, message: str, exit_code: int, following: str
) -> None:
    failed = stoker("user", "show", "x", server=refusing(status, code, message))
    assert failed.exit_code == exit_code
    assert failed.stdout == ""
    assert failed.stderr.startswith(f"Error: {message}\n")
    assert failed.stderr.endswith(f"Next: {following}\n") if following else "Next" not in failed.stderr


def test_the_hint_of_the_server_is_passed_on(stoker: RunStoker) -> None:
    assert "\nDo this.\n" in stoker("user", "show", "x", server=refusing(409, "exists", "No.", "Do this.")).stderr


def test_a_refused_credential_says_where_it_came_from(stoker: RunStoker) -> None:
    failed = stoker("--token", "sk-x", "user", "show", "x", server=refusing(401, "not_signed_in", "No."))
    assert "Credential: that of --token or STOKER_TOKEN." in failed.stderr


def test_the_next_command_names_the_server_that_was_named(stoker: RunStoker) -> None:
    failed = stoker("--server", "https://gpu.test", "user", "show", "x", server=refusing(401, "not_signed_in", "No."))
    assert failed.stderr.endswith("Next: stoker --server https://gpu.test login\n")


def test_a_server_that_is_not_there_is_code_5(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    refused: list[Answer | Exception] = [httpx.ConnectError("Connection refused") for _ in range(3)]
    failed = stoker("whoami", server=FakeServer({"GET /me": refused}))
    assert failed.exit_code == 5
    assert failed.stderr.startswith(f"Error: The server at {DEFAULT_SERVER} cannot be reached: connection refused.")
    assert failed.stderr.endswith("Next: stoker serve\n")


@pytest.mark.parametrize(
    ("words", "nearest"),
    [(("serv",), "stoker serve"), (("user", "lst"), "stoker user list"), (("wrkspace", "list"), "stoker workspace")],
)
def test_a_mistyped_verb_is_answered_with_the_nearest(stoker: RunStoker, words: tuple[str, ...], nearest: str) -> None:
    failed = stoker(*words)
    assert failed.exit_code == 2
    assert f'Did you mean "{nearest}"?' in failed.stderr


def test_a_verb_like_none_there_is_gets_no_suggestion(stoker: RunStoker) -> None:
    failed = stoker("xyzzy")
    assert failed.exit_code == 2
    assert "Did you mean" not in failed.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("user", "delete", "x"),
        ("workspace", "delete", "x"),
        ("workspace", "remove-member", "x", "y"),
        ("department", "delete", "x"),
        ("key", "delete", "x"),
        ("app", "delete", "x"),
        ("app", "renew-secret", "x"),
        ("restore", "x"),
    ],
)
def test_what_destroys_wants_a_yes_where_nobody_can_be_asked(stoker: RunStoker, words: tuple[str, ...]) -> None:
    server = FakeServer()
    refused = stoker(*words, server=server)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert server.asked == []


@pytest.mark.parametrize("verb", ["user", "workspace"])
def test_an_edit_of_nothing_is_a_mistake(stoker: RunStoker, verb: str) -> None:
    assert stoker(verb, "edit", "x").exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--server", "nonsense", "whoami"),
        ("-o", "xml", "whoami"),
        ("user", "list", "--role", "king"),
        ("key", "create", "k", "--expires", "soon"),
        ("audit", "--since", "99999999999d"),
        ("login", "--password-stdin"),
        ("login", "-u", "a"),
        ("serve", "--port", "x"),
        ("serve", "--config", "/nowhere.toml"),
        ("config", "show", "--port", "70000"),
    ],
)
def test_wrong_usage_is_code_2_and_nothing_is_asked(stoker: RunStoker, words: tuple[str, ...]) -> None:
    server = FakeServer()
    failed = stoker(*words, server=server)
    assert failed.exit_code == 2
    assert "Error: " in failed.stderr
    assert server.asked == []


def test_an_unexpected_error_is_not_swallowed(stoker: RunStoker) -> None:
    broken = FakeServer({"GET /me": [KeyError("a bug")]})
    assert isinstance(stoker("whoami", server=broken).exception, KeyError)
