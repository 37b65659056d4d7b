"""The same data in every form that can be asked for."""

import csv
import io
import json
import sys

import click
import pytest
import yaml
from click.testing import Result
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import MANAGEMENT_PATH, FakeServer, counted, page, user

from stoker.cli.render.output import show_table

PEOPLE = (user("ada", fullName="Ada, Countess", role="admin"), user("li.wei"))


def listed(stoker: RunStoker, *words: str) -> Result:
    return stoker(*words, server=FakeServer({"GET /users": (200, page(*PEOPLE))}))


def test_in_a_pipe_a_table_is_aligned_columns(stoker: RunStoker) -> None:
    lines = listed(stoker, "user", "list").stdout.splitlines()
    assert lines == [
        "NAME    ROLE   KIND    FULL NAME      EMAIL  DISABLED",
        "ada     admin  person  Ada, Countess  -      no",
        "li.wei  user   person  -              -      no",
    ]


def test_wide_has_every_column(stoker: RunStoker) -> None:
    head, first, *_ = listed(stoker, "user", "list", "-o", "wide").stdout.splitlines()
    assert head.split("  ")[-1].strip() == "ID"
    assert "2026-01-15 10:30:00Z" in first


def test_json_is_the_shape_of_the_api(stoker: RunStoker) -> None:
    assert json.loads(listed(stoker, "user", "list", "--json").stdout) == page(*PEOPLE)


def test_yaml_is_the_same_as_json(stoker: RunStoker) -> None:
    assert yaml.safe_load(listed(stoker, "user", "list", "-o", "yaml").stdout) == page(*PEOPLE)


def test_csv_has_a_header_and_every_column(stoker: RunStoker) -> None:
    rows = list(csv.DictReader(io.StringIO(listed(stoker, "user", "list", "-o", "csv").stdout)))
    assert [row["fullName"] for row in rows] == ["Ada, Countess", ""]
    assert rows[0]["createdAt"] == "2026-01-15T10:30:00.000Z"
    assert rows[0]["disabled"] == "false"
    assert set(rows[0]) == set(PEOPLE[0])


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "user", "list"),
        ("user", "--json", "list"),
        ("user", "list", "--json"),
        ("-o", "csv", "user", "list", "--json"),
        ("-o", "csv", "user", "list", "-o", "json"),
    ],
)
def test_the_form_can_be_chosen_before_and_after_the_verb_and_the_last_wins(
    stoker: RunStoker, words: tuple[str, ...]
) -> None:
    assert json.loads(listed(stoker, *words).stdout)["total"] == 2


def test_the_environment_chooses_too_and_a_flag_wins(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_OUTPUT", "json")
    assert json.loads(listed(stoker, "user", "list").stdout)["total"] == 2
    assert listed(stoker, "user", "list", "-o", "table").stdout.startswith("NAME")


def test_one_item_is_a_field_a_line(stoker: RunStoker) -> None:
    server = FakeServer({"GET /users/li.wei": (200, user())})
    lines = stoker("user", "show", "li.wei", server=server).stdout.splitlines()
    assert lines[0] == "NAME               li.wei"
    assert lines[5] == "DISABLED           no"


def test_one_item_as_json_is_the_shape_of_the_api(stoker: RunStoker) -> None:
    server = FakeServer({"GET /users/li.wei": (200, user())})
    assert json.loads(stoker("user", "show", "li.wei", "--json", server=server).stdout) == user()


def test_an_empty_list_says_so_beside_the_data(stoker: RunStoker) -> None:
    found = stoker("user", "list", server=FakeServer({"GET /users": (200, page())}))
    assert found.stderr == "Nothing found.\n"
    assert found.stdout.startswith("NAME")


def test_a_change_is_a_sentence_for_a_person_and_data_for_a_program(stoker: RunStoker) -> None:
    server = FakeServer({"POST /users": (201, user())})
    assert stoker("user", "create", "li.wei", server=server).stdout == "Created user li.wei.\n"
    assert json.loads(stoker("user", "create", "li.wei", "--json", server=server).stdout) == user()


def test_a_sentence_stays_out_of_data(stoker: RunStoker) -> None:
    server = FakeServer(
        {"DELETE /users/a": (204, None), "GET /users/a": (200, user("a")), f"GET {MANAGEMENT_PATH}": (200, counted())}
    )
    done = stoker("user", "delete", "a", "--yes", "--json", server=server)
    assert (done.stdout, done.stderr) == ("", "Deleted user a.\n")


def test_text_from_the_server_cannot_drive_the_terminal(stoker: RunStoker) -> None:
    server = FakeServer({"GET /users": (200, page(user("a", fullName="\x1b[2Jgone\nnext")))})
    assert "�[2Jgone�next" in stoker("user", "list", server=server).stdout


def test_an_application_shows_its_secret_at_the_top_of_the_json(stoker: RunStoker) -> None:
    application = {
        "clientId": "c",
        "name": "ci",
        "role": "user",
        "description": "",
        "disabled": False,
        "createdAt": "2026-01-15T10:30:00.000Z",
        "lastUsedAt": None,
    }
    made = {"application": application, "clientId": "c", "clientSecret": "s"}
    server = FakeServer({"POST /applications": (201, made)})
    assert json.loads(stoker("app", "create", "ci", "--admin", "--json", server=server).stdout) == made


def test_the_secret_of_a_key_is_all_there_is_on_stdout(stoker: RunStoker) -> None:
    key = {
        "id": "k",
        "name": "ci",
        "user": "a",
        "hint": "sk…",
        "scopes": ["read"],
        "cidrs": ["10.0.0.0/8"],
        "createdAt": "2026-01-15T10:30:00.000Z",
        "expiresAt": None,
        "lastUsedAt": None,
        "lastUsedFrom": "",
    }
    server = FakeServer({"POST /keys": (201, {"key": key, "secret": "sk-secret"})})
    words = ("key", "create", "ci", "--scope", "read", "--cidr", "10.0.0.0/8", "--expires", "2027-01-31T00:00:00Z")
    assert stoker(*words, server=server).stdout == "sk-secret\n"
    [body] = server.bodies()
    assert (body["scopes"], body["cidrs"], body["expiresAt"]) == (["read"], ["10.0.0.0/8"], "2027-01-31T00:00:00Z")


@pytest.mark.parametrize(("columns", "lines"), [(80, 2), (60, 3), (45, 3)])
def test_a_terminal_folds_sentences_and_never_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, lines: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = ("train-b2c4d", "lena.fischer", "pod train-b2c4d-0 exited with code 1")
    with click.Context(click.Command("x")):
        show_table(("ID", "USER", "MESSAGE"), [row], folded="MESSAGE")
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == lines
    assert ("train-b2c4d  lena.fischer" in shown[1]) is (columns > 50)
    assert all(word in shown[1] + shown[-1] for word in row[2].split())
