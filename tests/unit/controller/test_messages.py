"""The message about an ended pod: how it ended, and the reason that its engine reports."""

from typing import Any

import pytest

from stoker.controller.reconcile.actions import termination_message
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.pod import Pod


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"exit_code": 3, "message": "The command ended with exit code 3."}, "pod a-0 exited with code 3"),
        (
            {"exit_code": 137, "signal": 9, "message": "It needed more memory than the 2 GiB it asked for."},
            "pod a-0 was killed by signal 9 (exit code 137). It needed more memory than the 2 GiB it asked for.",
        ),
        ({"exit_code": 134, "signal": 6}, "pod a-0 was killed by signal 6 (exit code 134)"),
        ({"message": "There is no image."}, "pod a-0 could not be started. There is no image."),
    ],
)
def test_an_end_is_told_in_sentences(end: dict[str, Any], said: str) -> None:
    pod = Pod(
        uid="p",
        workload_uid="w",
        name="a-0",
        attempt=1,
        revision=1,
        rank=0,
        node="n",
        resources=Resources(),
        phase=PodPhase.FAILED,
        created_at=0,
        **end,
    )
    assert termination_message(pod) == said
