"""Real jobs on the local engine: what they print and what they report becomes training metrics, also over a crash."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.live_server import LiveClient, LiveServer, until

V1 = "/api/stoker/v1/workloads"
MEGATRON = (
    "' [2025-11-21 12:10:29] iteration {n}/ 500 | consumed samples: 64 | elapsed time per iteration (ms): 2701.3 |"
    " throughput per GPU (TFLOP/s/GPU): 210.5 | lm loss: {n}.5E-01 | grad norm: 0.132 |'"
)


def printing(first: int, last: int, gate: str = "") -> str:
    """A script that prints iterations, and waits for a file before it goes on."""
    lines = "\n".join(f"echo {MEGATRON.format(n=n)}" for n in range(first, last))
    return f"{lines}\n" + (f"while [ ! -e {gate} ]; do sleep 0.05; done\n" if gate else "")


def curves(client: LiveClient, job: str) -> dict[str, list[tuple[int | None, float]]]:
    items: list[Any] = client.get(f"{V1}/{job}/training-metrics", limit=10_000)["items"]
    return {each["metric"]: [(point["step"], point["value"]) for point in each["points"]] for each in items}


def expected(count: int) -> list[tuple[int, float]]:
    return [(n, float(f"{n}.5E-01")) for n in range(1, count + 1)]


def test_a_job_that_runs_shows_the_loss_it_prints(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data").start() as server, closing(server.client()) as client:
        job = client.create(printing(1, 6, "go"))
        found = until(lambda: curves(client, job), lambda seen: len(seen.get("loss", [])) == 5)
        assert found["loss"] == expected(5)
        assert found["tflops"] == [(n, 210.5) for n in range(1, 6)]
        assert client.workload(job)["phase"] in {"Pending", "Running"}
        client.send("POST", f"/api/custom/workloads/{job}/stop")
        client.end(job)


def test_a_progress_bar_shows_its_loss_before_its_line_ends(tmp_path: Path) -> None:
    bar = r"printf '\rEpoch 0: 1%%|#  | %d/100 [00:01<00:09, 2.00it/s, loss=%d.5]' $n $n"
    script = f"n=1\nwhile [ ! -e go ]; do {bar}; n=$((n+1)); sleep 0.4; done\n"
    with LiveServer(tmp_path / "data").start() as server, closing(server.client()) as client:
        job = client.create(script)
        found = until(lambda: curves(client, job), lambda seen: len(seen.get("loss", [])) >= 4)
        assert found["loss"][:4] == [(n, n + 0.5) for n in range(1, 5)]
        assert client.workload(job)["phase"] == "Running"
        client.send("POST", f"/api/custom/workloads/{job}/stop")
        client.end(job)


@pytest.mark.slow
def test_a_server_that_is_killed_neither_loses_nor_doubles_a_point(tmp_path: Path, shared_folder: Path) -> None:
    with LiveServer(tmp_path / "data").start() as server, closing(server.client()) as client:
        gates = [shared_folder / f"gate{number}" for number in range(3)]
        script = "".join(printing(1 + 50 * n, 51 + 50 * n, str(gate)) for n, gate in enumerate(gates))
        job = client.create(script)
        for number, gate in enumerate(gates):
            count = 50 * (number + 1)
            seen = until(lambda: curves(client, job), lambda seen, n=count: len(seen.get("loss", [])) >= n, 60.0)
            assert len(seen["loss"]) == count
            server.kill()
            gate.touch()
            server.start()
        client.end(job)
        found = until(lambda: curves(client, job), lambda seen: len(seen.get("loss", [])) >= 150)
        assert found["loss"] == expected(150)


def test_code_in_a_job_reports_without_being_set_up(tmp_path: Path) -> None:
    script = (
        f"exec {sys.executable} - <<'END'\n"
        "import stoker\n"
        "for step in range(100):\n"
        "    stoker.report(step, loss=1 / (step + 1), accuracy=0.5)\n"
        "END\n"
    )
    with LiveServer(tmp_path / "data").start() as server, closing(server.client()) as client:
        job = client.create(script)
        assert client.end(job)["phase"] == "Succeeded", client.lines(job)
        assert client.lines(job) == []
        found = curves(client, job)
        assert found["loss"] == [(step, 1 / (step + 1)) for step in range(100)]
        assert len(found["accuracy"]) == 100
