"""A loop that fails is begun again; nothing it does may depend on what it remembered."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.controller.lease import LeaseLostError
from stoker.domain.errors import StokerError

AGAIN_SECONDS = 1.0

log = logging.getLogger("stoker.controller")


async def forever(loop: Callable[[], Coroutine[Any, Any, None]], cluster_id: str) -> None:
    """Run it until the cluster is another's to drive."""
    while True:
        try:
            await loop()
        except LeaseLostError:
            raise
        except StokerError as error:
            log.warning("%s", error.message)
        except Exception:
            log.exception("a loop of cluster %s failed and is begun again", cluster_id)
        await asyncio.sleep(AGAIN_SECONDS)
