"""However often closing is cut short by a kill, the hours are in the end those of a run that nobody disturbed."""

import random
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import LoopRun
from tests.integration.controller import rollup_process
from tests.integration.controller.usage.test_rollup import CLUSTER, HOUR, RollupHarness

from stoker.controller.usage.rollup import CLOSE_DELAY_MS
from stoker.domain.usage.ledger import HOUR_MS
from stoker.store import open_store
from stoker.store.db.base import Row
from stoker.store.db.sqlite.connection import DATABASE_FILE

pytestmark = pytest.mark.slow

HOURS = 240
KILLS = 20
TABLES = (
    *("ledger", "usage_day", "workload_day"),
    *("cluster_hour", "namespace_hour", "dimension_hour", "workload_hour", "workload_hour_count"),
)


def closing_process(folder: Path) -> subprocess.Popen[str]:
    at = HOUR + HOURS * HOUR_MS + CLOSE_DELAY_MS
    command = [sys.executable, "-m", rollup_process.__name__, str(folder), CLUSTER, str(at)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def killed_after(folder: Path, seconds: float) -> int:
    with closing_process(folder) as process:
        time.sleep(seconds)
        process.kill()
    return process.returncode


def written(folder: Path) -> dict[str, list[Row]]:
    with sqlite3.connect(folder / DATABASE_FILE) as connection:
        found = {
            table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall())  # noqa: S608
            for table in TABLES
        }
    connection.close()
    return found


def test_hours_whose_closing_was_killed_are_those_of_an_undisturbed_run(tmp_path: Path, loop_run: LoopRun) -> None:
    quiet, disturbed = tmp_path / "quiet", tmp_path / "disturbed"
    quiet.mkdir()
    scene = RollupHarness(open_store("", quiet, 1), loop_run)
    scene.read_gpus(range(0, 600), 0.5, 0.7, 0.0, 0.0)
    loop_run(scene.store.close())
    shutil.copytree(quiet, disturbed)
    with closing_process(quiet) as process:
        pass
    assert process.returncode == 0

    dice = random.Random(7)
    ends = [killed_after(disturbed, dice.uniform(0.0, 0.15)) for _ in range(KILLS)]
    assert ends.count(-9) >= KILLS // 2, "too few were killed at work"
    with closing_process(disturbed) as process:
        pass
    assert process.returncode == 0
    assert len(written(quiet)["cluster_hour"]) == HOURS
    assert written(disturbed) == written(quiet)
