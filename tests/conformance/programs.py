"""What the pods of the suite run.

A program is a script for a POSIX shell and, where the simulation can do the same, the annotations for that.
"""

from collections.abc import Mapping

from msgspec import Struct


class Program(Struct, frozen=True):
    """`simulation` has annotations of the simulated engine without their prefix; None if only a real program can do
    this."""

    script: str
    simulation: Mapping[str, object] | None = None


def exits_with(code: int) -> Program:
    return Program(f"echo begun; exit {code}", {"seconds": 1, "exit-code": code})


def prints(script: str) -> Program:
    """A script of which only the output matters."""
    return Program(script)


HOUR = {"seconds": 3600, "start-seconds": 0}
RUNS = Program("echo up; exec sleep 600", HOUR)
"""Runs until it is stopped."""
RUNS_ONCE = Program("echo run >> runs; echo up; exec sleep 600", HOUR)
"""The same, and counts its starts."""
ENDS_ONCE = Program("echo run >> runs; echo up", {"seconds": 1})
ENDS_SOON = Program("echo begun; sleep 0.3; echo done; exit 4", {"seconds": 2, "exit-code": 4})
STARTS_LATE = Program("echo run >> runs; echo up; exec sleep 600", {"seconds": 3600, "start-seconds": 3600})
"""The simulation starts it late; real pods are killed before their start by a crash of the engine."""
PRINTS_ALWAYS = Program("n=0; while :; do n=$((n + 1)); echo line $n; sleep 0.05; done", HOUR)
OUT_OF_MEMORY = Program("dd if=/dev/zero of=/dev/null bs=400M count=1; exit 137", {"seconds": 1, "exit-code": 137})
SERVES = Program("", HOUR)
"""Its script is that of the fixture."""
IDLE = Program("", HOUR)
"""An Authoring pod."""

CLEANS_UP = Program("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done")
IGNORES_TERM = Program("trap '' TERM; echo up; while :; do sleep 0.05; done")
LEAVES_DAEMON = Program("(trap '' TERM; setsid sleep 600 >/dev/null 2>&1 &); sleep 0.2; echo away; exit 5")
"""Ends and leaves a process of another session that ignores SIGTERM."""
STUBBORN_TREE = Program(
    "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 600; :' >/dev/null 2>&1 &); "
    "(sh -c 'trap \"\" TERM; sleep 600; :' &); sleep 0.2; echo up; while :; do sleep 0.05; done"
)
