"""`stoker training`: a plot for each of the metrics that matter, and the latest of all."""

import json

from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import MANAGEMENT_PATH, FakeServer, detail

A = "train-b2c4d"


def curve(metric: str, values: list[float], *, steps: bool = True) -> dict[str, object]:
    points = [
        {"at": f"2026-01-15T10:{number:02d}:00.000Z", "step": number * 10 if steps else None, "value": value}
        for number, value in enumerate(values)
    ]
    return {"metric": metric, "count": len(points), "points": points}


def server(*curves: object) -> FakeServer:
    answers = {
        f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A)),
        f"GET /workloads/{A}/training-metrics": (200, {"items": curves}),
    }
    return FakeServer(answers)  # pyrefly: ignore[bad-argument-type]


def test_the_loss_is_plotted_and_everything_has_its_latest_value(stoker: RunStoker) -> None:
    shown = stoker("training", A, server=server(curve("grad_norm", [1, 2]), curve("loss", [4, 3, 2.5]))).stdout
    lines = shown.splitlines()
    assert lines[0] == "loss  2.5"
    assert lines[1].startswith("  4 ┤")
    assert lines[8].startswith("2.5 ┤")
    assert lines[9].strip() == "step 0 to 20"
    assert [line.split() for line in lines[11:]] == [
        ["METRIC", "LATEST", "LOWEST", "HIGHEST", "STEP", "POINTS"],
        ["grad_norm", "2", "1", "2", "10", "2"],
        ["loss", "2.5", "2.5", "4", "20", "3"],
    ]


def test_points_without_a_step_lie_along_the_time(stoker: RunStoker) -> None:
    shown = stoker("training", A, "--metric", "x", server=server(curve("loss", [1]), curve("x", [1, 2], steps=False)))
    assert "2026-01-15 10:00:00Z to 2026-01-15 10:01:00Z" in shown.stdout
    assert "loss" not in shown.stdout


def test_a_workload_that_says_nothing_says_so(stoker: RunStoker) -> None:
    shown = stoker("training", A, server=server())
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr == f"{A} has said nothing about training.\n"


def test_a_program_gets_the_points_themselves(stoker: RunStoker) -> None:
    shown = stoker(
        "training", A, "--since", "1h", "--points", "50", "--json", server=(known := server(curve("loss", [1])))
    )
    assert json.loads(shown.stdout)["items"] == [curve("loss", [1])]
    [asked] = known.asked_for("GET", f"/api/stoker/v1/workloads/{A}/training-metrics")
    assert asked.url.params["limit"] == "50"
    assert "start" in asked.url.params


def test_a_spreadsheet_gets_a_point_a_line(stoker: RunStoker) -> None:
    curves = (curve("grad_norm", [0.5], steps=False), curve("loss", [4, 2.5]))
    assert stoker("training", A, "-o", "csv", server=server(*curves)).stdout.splitlines() == [
        "metric,at,step,value",
        "grad_norm,2026-01-15T10:00:00.000Z,,0.5",
        "loss,2026-01-15T10:00:00.000Z,0,4.0",
        "loss,2026-01-15T10:01:00.000Z,10,2.5",
    ]


def test_points_that_are_left_out_are_spoken_of(stoker: RunStoker) -> None:
    few = curve("loss", [4, 2.5])
    note = "These are some of the points, evenly chosen; --points shows more.\n"
    assert stoker("training", A, "-o", "csv", server=server(few | {"count": 3})).stderr == note
    assert stoker("training", A, "-o", "csv", server=server(few)).stderr == ""
