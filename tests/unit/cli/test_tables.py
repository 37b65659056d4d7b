"""Tables on terminals of every usual width: a column is left out before a value is cut, and a row is one line."""

import io
import re
from collections.abc import Callable

import click
import pytest
from rich.console import Console
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import MANAGEMENT_PATH, FakeServer, counted, page, workload
from tests.unit.cli.test_fleet import cluster, gpu, node, overview
from tests.unit.cli.test_waste import item, report

from stoker.cli.commands.workloads.list import COLUMN_PRIORITY, COLUMNS
from stoker.cli.render.output import row_cells, visible_columns
from stoker.cli.render.table_fit import FittedTable, display_width
from stoker.domain.cluster.quantity import humanize_count

WIDTHS = (60, 80, 100, 120, 200)
LONG = "finetune-llama-3-70b-instruct-sft-b2c4d"
SENTENCE = "Needs 8 GPUs on one node with enough memory; the best of 128 nodes has 4."
Terminal = Callable[[int], None]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Makes stdout a terminal of so many columns."""

    def of(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)

    return of


def fleet() -> FakeServer:
    """A server with long names everywhere."""
    rows = [
        workload(
            LONG,
            "Pending",
            message=SENTENCE,
            workspaceId="speech-research",
            userName="lena.fischer@example.com",
            groupVersionKind={"kind": "PyTorchJob", "version": "v1"},
            resource={"cpu": "8", "memory": "64Gi", "gpu": "8", "replica": 4},
            runtime="123h45m06s",
        ),
        workload("a-b2c4d"),
    ]
    nodes = [
        node("gpu-node-0123.rack7.example", state="partial", models=["AMD Instinct MI300X"], cluster="production-west"),
        node("n2", state="faulty", fault="GPU 3: XID 79, the GPU has fallen off the bus", utilization=None),
    ]
    gpus = [gpu(0, node="gpu-node-0123.rack7.example", workload=LONG, model="AMD Instinct MI300X"), gpu(11)]
    return FakeServer(
        {
            f"GET {MANAGEMENT_PATH}": (200, counted(*rows)),
            "GET /overview": (200, overview(cluster("production-west", simulated=True), cluster())),
            "GET /nodes": (200, page(*nodes)),
            "GET /gpus": (200, page(*gpus)),
            "GET /waste": (200, report(item(LONG, workspace="speech-research", user="lena.fischer"), item("a"))),
        }
    )


def shown(stoker: RunStoker, verb: str, rows: int) -> list[str]:
    """The lines of the table that a verb prints, as a person sees them."""
    done = stoker(verb, server=fleet())
    assert done.exit_code == 0, done.stderr
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in done.stdout.splitlines()[: rows + 1]]


def pieces(line: str) -> list[str]:
    return re.split(r"  +", line.strip())


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(("verb", "rows"), [("list", 2), ("overview", 3), ("nodes", 2), ("gpus", 2), ("waste", 2)])
def test_a_table_fits_the_terminal_and_cuts_no_value(
    stoker: RunStoker, terminal: Terminal, verb: str, rows: int, columns: int
) -> None:
    whole = [pieces(line) for line in shown(stoker, verb, rows)]
    values = [dict(zip(whole[0], row, strict=False)) for row in whole[1:]]
    terminal(columns)
    lines = shown(stoker, verb, rows)
    assert max(map(display_width, lines)) <= columns
    titles = pieces(lines[0])
    assert titles == [title for title in whole[0] if title in titles]
    assert len(titles) >= 3
    for row, full in zip(lines[1:], values, strict=True):
        assert pieces(row) == [full[title] for title in titles if title in full]


def test_a_wide_terminal_has_every_column(stoker: RunStoker, terminal: Terminal) -> None:
    titles = pieces(shown(stoker, "list", 2)[0])
    terminal(240)
    assert pieces(shown(stoker, "list", 2)[0]) == titles


def test_what_has_no_room_is_said(stoker: RunStoker, terminal: Terminal) -> None:
    terminal(80)
    done = stoker("list", server=fleet())
    assert "Too narrow for" in done.stderr
    assert "MESSAGE" in done.stderr
    terminal(240)
    assert stoker("list", server=fleet()).stderr == ""


def test_a_pipe_has_every_column_unless_a_width_is_set(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "MESSAGE" in shown(stoker, "list", 2)[0]
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(stoker, "list", 2)
    assert "MESSAGE" not in lines[0]
    assert max(map(display_width, lines)) <= 80


def test_wide_has_every_column_whatever_the_terminal(stoker: RunStoker, terminal: Terminal) -> None:
    terminal(80)
    head = stoker("list", "-o", "wide", server=fleet()).stdout.splitlines()[0]
    assert {"MESSAGE", "DESCRIPTION", "CREATED"} <= {*pieces(re.sub(r"\x1b\[[0-9;]*m", "", head))}


def test_the_gpu_column_is_the_total_of_all_replicas(stoker: RunStoker) -> None:
    def asked(gpu: str, replica: int) -> str:
        row = workload(resource={"cpu": "1", "memory": "1Gi", "gpu": gpu, "replica": replica})
        head, first = stoker(
            "list", server=FakeServer({f"GET {MANAGEMENT_PATH}": (200, counted(row))})
        ).stdout.splitlines()
        return dict(zip(pieces(head), pieces(first), strict=True))["GPU"]

    assert [asked("8", 4), asked("500m", 3), asked("0.25", 1), asked("0", 2)] == ["32", "1.5", "0.25", "0"]


@pytest.mark.parametrize(
    ("amount", "said"), [(1, "1 GPU"), (0.1, "0.1 GPU"), (0, "0 GPUs"), (1.5, "1.5 GPUs"), (2000, "2,000 GPUs")]
)
def test_a_noun_is_plural_where_there_is_more_than_one_or_none(amount: float, said: str) -> None:
    assert humanize_count(amount, "GPU") == said


def test_one_idle_gpu_of_one_workload_is_singular(stoker: RunStoker) -> None:
    found = report(item("a", idleGpus=1.0, gpus=1.0), idleGpus=1.0, idleGpuHours=1.0, cost=None)
    server = FakeServer({"GET /overview": (200, overview(cluster())), "GET /waste": (200, found)})
    assert (
        "\n1 GPU of 1 workload is idle: used no more than 1 %; 1.0 GPU-hours.\n"
        in stoker("waste", server=server).stdout
    )


def test_a_character_that_takes_two_columns_counts_as_two() -> None:
    table = FittedTable(("NAME", "TEXT"), [("a", "训练任务"), ("bb", "x")])
    assert table.render_lines(14) == ["NAME  TEXT", "a     训练任务", "bb    x"]
    assert table.render_lines(13) == ["NAME", "a", "bb"]


def narrow(importance: tuple[str, ...], width: int) -> tuple[list[str], list[str]]:
    every = ("ID", "PHASE", "KIND", "USER", "GPU", "MESSAGE")
    row = ("train-b2c4d", "Succeeded", "PyTorchJob", "anna", "8", "every pod exited with code 0")
    table = FittedTable(every, [row], importance)
    return pieces(table.render_lines(width)[0]), table.hidden_columns(width)


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (140, ["ID", "PHASE", "KIND", "USER", "GPU", "MESSAGE"]),
        (70, ["ID", "PHASE", "USER", "GPU", "MESSAGE"]),
        (60, ["ID", "PHASE", "GPU", "MESSAGE"]),
        (50, ["ID", "PHASE", "KIND", "USER", "GPU"]),
        (30, ["ID", "PHASE", "GPU"]),
        (10, ["ID"]),
    ],
)
def test_columns_are_taken_by_importance_as_far_as_they_have_room_whole(width: int, titles: list[str]) -> None:
    shown, missing = narrow(("ID", "PHASE", "GPU", "MESSAGE", "USER", "KIND"), width)
    assert shown == titles
    assert {*shown, *missing} == {"ID", "PHASE", "KIND", "USER", "GPU", "MESSAGE"}


def test_without_an_order_the_columns_on_the_right_go_first() -> None:
    assert narrow((), 36)[0] == ["ID", "PHASE", "KIND"]


def test_on_a_page_of_one_thing_a_sentence_is_folded_between_words_and_never_left_out() -> None:
    table = FittedTable(("AT", "MESSAGE"), [("10:30", "pod train-b2c4d-0 exited with code 1")], folded="MESSAGE")
    assert table.render_lines(33) == ["AT     MESSAGE", "10:30  pod train-b2c4d-0 exited", "       with code 1"]
    assert table.hidden_columns(33) == []


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_list_that_stays_keeps_its_rows_on_one_line_too(columns: int) -> None:
    with click.Context(click.Command("list")):
        rows = [row_cells(workload(LONG, "Pending", message=SENTENCE), COLUMNS)]
        table = FittedTable([column.title for column in visible_columns(COLUMNS)], rows, COLUMN_PRIORITY)
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(LONG)
    assert "…" not in lines[1]
