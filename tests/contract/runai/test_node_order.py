"""Nodes as Run:ai's clients list them: numbers in names by their size, on every page."""

from typing import Any

from tests.contract.monitoring.harness import node_now
from tests.contract.runai.harness import RunaiHarness


def _get(harness: RunaiHarness, path: str) -> Any:
    answer = harness.get(path, as_="admin")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_nodes_and_the_nodes_of_a_pool_are_in_natural_order(harness: RunaiHarness) -> None:
    numbers, natural = (10, 2, 1), ["gpu-node-1", "gpu-node-2", "gpu-node-10"]
    harness.publish(nodes=[node_now(f"gpu-node-{number}") for number in numbers])
    assert [each["name"] for each in _get(harness, "/api/v1/nodes")["nodes"]] == natural
    assert [each["name"] for each in _get(harness, "/api/v1/nodes?sortBy=name&sortOrder=desc")["nodes"]] == natural[
        ::-1
    ]
    assert [each["name"] for each in _get(harness, "/api/v1/nodes?offset=1&limit=1")["nodes"]] == natural[1:2]
    assert _get(harness, "/api/v1/node-pools")["nodepools"][0]["status"]["nodes"] == natural
