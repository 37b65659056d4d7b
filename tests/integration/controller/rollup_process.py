"""Run as a process of its own, to be killed: closes the hours of a cluster in the database of a folder, at a moment."""

import asyncio
import sys
from pathlib import Path

from tests.clock import ManualClock

from stoker.controller.usage.rollup import Rollup
from stoker.store import open_store


async def close(folder: Path, cluster_id: str, at: int) -> None:
    store = open_store("", folder, 1)
    print("open", flush=True)
    await Rollup(store, cluster_id, ManualClock(at), 1.0).catch_up()
    await store.close()


if __name__ == "__main__":
    asyncio.run(close(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
