"""A whole server that tells a receiver how jobs end, also when it dies between sending and writing that down."""

import asyncio
import base64
import subprocess
from pathlib import Path

import pytest
from tests.conftest import LoopRun
from tests.integration.live_server import STOKER, LiveServer
from tests.integration.webhooks.receiver import Receiver

HOOKS = "/api/stoker/v1/webhooks"
pytestmark = pytest.mark.slow


def test_a_real_job_ends_and_a_server_that_dies_tells_it_again(loop_run: LoopRun, tmp_path: Path) -> None:
    secret = "whsec_" + base64.b64encode(b"s" * 32).decode()

    async def play(server: LiveServer) -> None:
        async with Receiver.listening() as receiver:
            await asyncio.to_thread(server.start)
            client = server.client()
            hook = {"url": receiver.url, "secret": secret, "workspace": "default"}
            made = (await asyncio.to_thread(client.send, "POST", HOOKS, hook))["webhook"]["id"]
            await asyncio.to_thread(ask_for_a_test, server, made)
            job = await asyncio.to_thread(client.create, "exit 3")
            _, failed = await receiver.until(lambda found: len(found) == 2)
            told = failed.verified(secret)
            assert (told["type"], told["data"]["id"], told["data"]["exitCode"]) == ("workload.failed", job, 3)
            assert (told["data"]["workspace"], told["data"]["phase"]) == ("default", "Failed")

            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start, "webhooks.sent")
            job = await asyncio.to_thread(client.create, "true")
            await asyncio.to_thread(server.wait)  # it dies when it has sent that
            await asyncio.to_thread(server.start)
            *_, first, again = await receiver.until(lambda found: len(found) == 4)
            assert (first.id, first.body) == (again.id, again.body)
            assert again.verified(secret)["data"]["id"] == job
            client.close()

    with LiveServer(tmp_path / "data", options=("--webhook-private-targets",)) as server:
        loop_run(play(server))


def ask_for_a_test(server: LiveServer, hook: str) -> None:
    key = (server.data_dir / "admin.key").read_text().strip()
    words = [*STOKER, "webhook", "test", hook, "--server", server.address, "--token", key]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "The receiver took it and answered 204.\n"), done.stderr
