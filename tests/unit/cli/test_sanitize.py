"""Text of others is shown, and drives neither the terminal nor a spreadsheet."""

import csv
import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import MANAGEMENT_PATH, FakeServer, counted, detail, workload

from stoker.cli.remote.attach import LogPrinter
from stoker.cli.render.sanitize import (
    escape_json,
    sanitize_csv_cell,
    sanitize_line,
    sanitize_log_line,
    sanitize_paragraph,
)
from stoker.client.follow import LogOutput
from stoker.client.results import PodLogLine

CLIPBOARD = "\x1b]52;c;aGk=\x07"
A = "train-b2c4d"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("loss 0.5\tstep 3", "loss 0.5\tstep 3"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m"),
        ("\x1b[38:2:1:2:3mtrue colour", "\x1b[38:2:1:2:3mtrue colour\x1b[0m"),
        ("\x1b[2J\x1b[Hcleared", "��cleared"),
        ("\x1b[1Aup\x1b[?25l", "�up�"),
        ("\x1b]0;title\x07text", "�text"),
        (f"{CLIPBOARD}text", "�text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "�link�"),
        ("\x1bP1;2|device\x1b\\text", "�text"),
        ("\x1bcreset", "�creset"),
        ("\x9b31mred", "�31mred"),
        ("bell\a back\b", "bell� back�"),
        ("10%\r50%\r100%", "100%"),
        ("from Windows\r", "from Windows"),
        ("价格　\u00a0é 👩‍💻", "价格　\u00a0é 👩‍💻"),
        ("\u202eoverridden", "�overridden"),
    ],
)
def test_a_line_on_a_terminal_keeps_its_colours_and_nothing_else(printed: str, shown: str) -> None:
    assert sanitize_log_line(printed) == shown


def print_line(monkeypatch: pytest.MonkeyPatch, text: str, *, terminal: bool) -> str:
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(stdout, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    LogPrinter(plain=True).print_line(LogOutput(pod="p", attempt=1, line=PodLogLine(at=0, text=text)))
    return stdout.buffer.getvalue().decode()  # pyrefly: ignore[missing-attribute]


def test_a_pipe_gets_what_was_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert print_line(monkeypatch, f"a{CLIPBOARD}\rb", terminal=False) == f"a{CLIPBOARD}\rb\n"
    assert print_line(monkeypatch, f"a{CLIPBOARD}", terminal=True) == "a�\n"


@given(st.text(alphabet=st.sampled_from("a\x1b[]m;0\x07\x9b\\P\n\r\t=\u202e")))
def test_nothing_that_drives_a_terminal_comes_through(text: str) -> None:
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(
        sanitize_line(text) + sanitize_paragraph(text) + sanitize_csv_cell(text)
    )
    left = sanitize_log_line(text).replace("\x1b[0m", "")
    while "\x1b" in left:
        start = left.index("\x1b")
        sequence, _, rest = left[start:].partition("m")
        assert sequence[:2] == "\x1b["
        assert set(sequence[2:]) <= set("0123456789;:")
        left = left[:start] + rest
    assert not {"\x07", "\x9b", "\r", "\n"} & set(left)


@given(st.text())
def test_json_stays_the_same(text: str) -> None:
    encoded = json.dumps({"text": text}, ensure_ascii=False)
    assert json.loads(escape_json(encoded)) == {"text": text}


@pytest.mark.parametrize("form", ["table", "wide", "json", "csv", "yaml"])
def test_no_form_of_a_list_hands_a_control_character_on(stoker: RunStoker, form: str) -> None:
    row = workload(A, message=f"failed {CLIPBOARD}\x9b2J", description="\x1b[31mred")
    shown = stoker("list", "-o", form, server=FakeServer({f"GET {MANAGEMENT_PATH}": (200, counted(row))})).stdout
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_what_is_said_of_one_workload_hands_no_control_character_on(stoker: RunStoker) -> None:
    bad = f"x{CLIPBOARD}"
    found = detail(A, "Failed", message=bad, description=bad, entryPoint=bad, env={"A": bad}, customerLabels={"l": bad})
    shown = stoker("describe", A, server=FakeServer({f"GET {MANAGEMENT_PATH}/{A}": (200, found)})).output
    assert not {"\x1b", "\x07"} & set(shown)
    refused = (400, {"errorCode": "Stoker.00002", "errorMessage": f"{bad}\nand more"})
    failed = stoker("describe", A, server=FakeServer({f"GET {MANAGEMENT_PATH}/{A}": refused}))
    assert failed.stderr.startswith("Error: x�]52;c;aGk=�\nand more\n")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://x")'])
def test_a_cell_of_csv_is_never_a_formula(stoker: RunStoker, text: str) -> None:
    server = FakeServer({f"GET {MANAGEMENT_PATH}": (200, counted(workload(A, description=text, priority=2)))})
    [row] = csv.DictReader(io.StringIO(stoker("list", "-o", "csv", server=server).stdout))
    assert (row["description"], row["priority"]) == (f"'{text}", "2")
