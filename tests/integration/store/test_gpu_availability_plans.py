"""Statements about GPU intervals read the rows of a node, of a GPU or of a range, never all rows of a cluster."""

import re
import sqlite3
from importlib import resources

import pytest

from stoker.store.cluster import gpu_availability
from stoker.store.sql.select_in import IN_LIST_SIZES

PLANS = {
    gpu_availability.OPEN_INTERVALS: ["gpu_availability_current (cluster_id=? AND node=?)"],
    gpu_availability.CLOSE_NODE_INTERVALS: ["gpu_availability_current (cluster_id=? AND node=?)"],
    gpu_availability.OPEN_INTERVALS_OF_GPUS: ["(cluster_id=? AND gpu=?)"],
    gpu_availability.REPORTED_FAULTS: ["gpu_availability_reported (cluster_id=?)"],
    gpu_availability.REPORTED_FAULTS_OF_NODES: ["gpu_availability_reported (cluster_id=? AND node=?)"],
    gpu_availability.CLOSE_INTERVAL: ["(cluster_id=? AND gpu=? AND state=?)"],
    gpu_availability.INTERVALS_IN_RANGE: [
        "gpu_availability_current (cluster_id=?)",
        "gpu_availability_by_to_at (cluster_id=? AND to_at>?)",
    ],
}


@pytest.mark.parametrize("sql", PLANS, ids=lambda sql: sql.split("\n")[1])
def test_a_statement_uses_the_index_made_for_it(sql: str) -> None:
    schema = resources.files("stoker.store").joinpath("schema/sqlite/0001_initial.sql").read_text()
    keys = ", ".join("?" * IN_LIST_SIZES[-1])
    asked = re.sub(r":\w+", "?", sql.replace(":keys", keys))
    database = sqlite3.connect(":memory:")
    database.executescript(schema)
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {asked}", [None] * asked.count("?"))]
    database.close()
    searches = [step for step in plan if step.startswith(("SEARCH", "SCAN"))]
    assert [step.endswith(index) for step, index in zip(searches, PLANS[sql], strict=True)] == [True] * len(PLANS[sql])
