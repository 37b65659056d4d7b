"""GPUs without samples are never idle: a real job on pretend GPUs survives the strictest policy."""

from pathlib import Path

import pytest
from tests.integration.live_server import LiveServer

WORKSPACE = "/api/stoker/v1/workspaces/default"
STRICT = {"action": "stop", "threshold": 100, "windowSeconds": 1, "graceSeconds": 0}
pytestmark = pytest.mark.slow


def test_a_real_job_on_gpus_without_readings_is_not_stopped(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", options=("--sample-seconds", "1")) as server:
        client = server.start().client()
        client.send("PATCH", WORKSPACE, {"idlePolicy": STRICT})
        job = client.create("sleep 4", resource={"cpu": "1", "gpu": "1", "memory": "1Gi", "replica": 1})
        ended = client.end(job)
        assert ended["phase"] == "Succeeded"
        assert not [each for each in ended["conditions"] if each["reason"].startswith("Idle")]
        client.close()
