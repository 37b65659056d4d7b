"""The first answer about a new workload says why it waits."""

import contextlib
from pathlib import Path

from tests.integration.live_server import LiveServer

from stoker.domain.workload.status import NOT_YET_SCHEDULED


def test_the_first_get_of_a_queued_workload_has_the_reason_of_the_scheduler(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", gpus=1) as server, contextlib.closing(server.start().client()) as client:
        holder = client.create("sleep 600", resource={"gpu": "1", "cpu": "10m"})
        client.until(holder, lambda found: found["phase"] == "Running")
        names = [client.create("true", resource={"gpu": "1", "cpu": "10m"})]
        messages = [client.workload(names[0])["message"]]
        for _ in range(5):
            names.append(client.create("true", resource={"gpu": "1", "cpu": "10m"}))
            messages.append(client.workload(names[-1])["message"])
        assert NOT_YET_SCHEDULED.message not in messages
        assert messages[0] == "Needs 1 GPU on one node; the only node has none free."
        assert all(message.startswith(f"Waits behind {names[0]}, the head of the queue;") for message in messages[1:])
