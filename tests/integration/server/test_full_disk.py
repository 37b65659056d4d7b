"""On a full disk, existing workloads can be stopped and deleted; afterwards the server continues as before."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import LoopRun
from tests.integration.live_server import WORKLOADS, LiveServer, new_workload, until
from tests.integration.store.conftest import Disk, small_mount

from stoker.client.transport.request_flow import MAX_BACKOFF_SECONDS
from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.base import Transaction
from stoker.store.db.sqlite.disk_reserve import RESERVE_FILE
from stoker.store.db.sqlite.store import SqliteStore

PUT = "INSERT INTO secret (name, value, created_at) VALUES (:name, :value, 0)"
GREEDY = "while :; do head -c 100000 /dev/zero >> filler 2>/dev/null; done"
"""Takes every byte that becomes free, for as long as it runs."""


@pytest.fixture
def disk() -> Iterator[Disk]:
    with tempfile.TemporaryDirectory(prefix="stoker-disk-") as name, small_mount(Path(name), "48m") as limited:
        yield limited


def put(name: str) -> Callable[[Transaction], int]:
    return lambda transaction: transaction.execute(PUT, {"name": name, "value": "x" * 2000})


def held(folder: Path) -> int:
    """How large the reserve is."""
    return (folder / RESERVE_FILE).stat().st_size if (folder / RESERVE_FILE).exists() else 0


def test_the_reserve_is_given_up_for_a_write_and_made_again_when_there_is_room(disk: Disk, loop_run: LoopRun) -> None:
    async def main() -> None:
        store = SqliteStore(disk.folder, 4 * 2**20, 2**21)
        await store.write(put("before"))
        assert held(disk.folder) == 2**21
        store.check_disk_space()
        disk.fill()
        with pytest.raises(StokerError, match=f"The disk of {disk.folder} is nearly full: 0.0 MiB are free") as low:
            store.check_disk_space()
        assert low.value.code is ErrorCode.UNAVAILABLE
        assert "below 4.0 MiB" in low.value.message
        assert low.value.retry_after_seconds > MAX_BACKOFF_SECONDS, "a client waits without a word"
        await asyncio.gather(
            *((store.write_inline, store.write)[number % 2](put(f"full{number}")) for number in range(50))
        )
        for number in range(50):
            await store.write(put(f"more{number}"))
        assert held(disk.folder) == 0
        disk.free()
        after = 0
        while held(disk.folder) != 2**21:  # how much is free is looked at every few milliseconds only
            after += 1
            assert after < 1000, "the reserve is not made again"
            await store.write_inline(put(f"after{after}"))
        await store.close()
        again = SqliteStore(disk.folder)
        assert await again.read_inline(count) == 101 + after
        assert await again.read_inline(lambda tx: tx.fetch_all("PRAGMA integrity_check")) == [("ok",)]
        await again.close()

    loop_run(main())


def count(transaction: Transaction) -> int:
    return transaction.fetch_all("SELECT COUNT(*) FROM secret")[0][0]


def test_a_server_starts_on_a_full_disk(disk: Disk, loop_run: LoopRun) -> None:
    async def main() -> None:
        store = SqliteStore(disk.folder, 4 * 2**20, 2**21)
        await store.write(put("before"))
        await store.close()
        disk.fill()
        again = SqliteStore(disk.folder, 4 * 2**20, 2**21)
        await again.write(put("after"))
        assert await again.read_inline(count) == 2
        await again.close()

    loop_run(main())


def test_a_job_that_takes_the_whole_disk_can_be_stopped_and_deleted(disk: Disk) -> None:
    data = disk.folder / "data"
    with LiveServer(data) as server:
        client = server.start().client()
        assert held(data) > 2 * 2**20
        greedy = client.create(f"echo begun; {GREEDY}")
        until(lambda: os.statvfs(data).f_bavail, lambda free: free == 0)
        refused = client.ask("POST", WORKLOADS, json=new_workload("true"))
        assert refused.status_code == 503
        assert refused.json()["errorCode"] == "Stoker.00007"
        assert f"The disk of {data} is nearly full" in refused.json()["errorMessage"]
        assert int(refused.headers["Retry-After"]) > 0
        ready = client.get("/readyz")
        assert [part["name"] for part in ready["parts"]] == ["database", "space"]
        assert client.ask("POST", f"{WORKLOADS}/{greedy}/stop").status_code == 204
        client.until(greedy, lambda found: found["phase"] == "Stopped", 60)
        assert client.ask("DELETE", f"{WORKLOADS}/{greedy}").status_code == 204
        until(lambda: os.statvfs(data).f_bavail * 4096, lambda free: free > 20 * 2**20)
        assert client.end(client.create("echo again"))["phase"] == "Succeeded"
        assert until(lambda: held(data), lambda size: size > 0) > 2 * 2**20
        client.close()
        assert server.stop() == 0
