"""Another process with an engine, as a server is, that makes one call and is then killed.

`python -m tests.conformance.engine_process OPENER ARGUMENT CALL SPEC` prints `done` after the call and waits.
"""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
from tests.conformance.engine_fixture import OpenerArguments

from stoker.concurrency.failpoints import FAILPOINT_VARIABLE
from stoker.engines.model import LaunchSpec
from stoker.engines.protocol import Engine

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_SECONDS = 60.0


def call_and_kill(arguments: OpenerArguments, call: str, launch_spec: LaunchSpec, failpoint: str = "") -> None:
    """Make a call in another process. It is killed by SIGKILL after the call, or dies inside of it at the failpoint."""
    text = msgspec.json.encode(launch_spec).decode()
    command = [sys.executable, "-m", "tests.conformance.engine_process", arguments.opener, arguments.argument, call]
    env = os.environ | ({FAILPOINT_VARIABLE: failpoint} if failpoint else {})
    with subprocess.Popen(
        [*command, text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=ROOT, env=env
    ) as process:
        try:
            assert process.stdout is not None
            done = process.stdout.readline() == b"done\n"
        finally:
            process.kill()
            code = process.wait(_TIMEOUT_SECONDS)
    assert code == -signal.SIGKILL, f"the process has ended with {code}"
    assert done is not bool(failpoint), "it was killed elsewhere"


async def _call(engine: Engine, call: str, launch_spec: LaunchSpec) -> None:
    match call:
        case "apply":
            await engine.apply(launch_spec)
        case "terminate":
            await engine.terminate(launch_spec.ref, grace_seconds=launch_spec.grace_seconds)
        case "release":
            await engine.release(launch_spec.ref)
        case "purge":
            await engine.purge(launch_spec.ref)
        case _:
            raise ValueError(call)


async def _main(opener: str, argument: str, call: str, text: str) -> None:
    module, _, function = opener.partition(":")
    engine: Engine = await getattr(importlib.import_module(module), function)(argument)
    await _call(engine, call, msgspec.json.decode(text, type=LaunchSpec))
    print("done", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
