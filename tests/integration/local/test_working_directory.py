"""The check of a working directory runs in a sandbox and agrees with what a job then finds."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.integration.local.harness import Harness, new_order

FIRST = 1_999_000_000
WORKSPACE = 7
HIDDEN = (
    "Jobs do not see it: they have a /tmp and a /dev of their own, and what only root may enter, and the data "
    "directory, are hidden from them."
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has users to give")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory outside /tmp that everybody may enter."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def refusal(harness: Harness, directory: Path) -> str:
    return harness.run(harness.engine.check_working_directory(str(directory), WORKSPACE))


def enters(harness: Harness, directory: Path) -> bool:
    """Whether a job does enter it, and finds there what is outside."""
    order = structs.replace(new_order(f"cd {directory} && ls mark"), workspace_id=WORKSPACE)
    harness.run(harness.engine.apply(order))
    harness.end(order.pods[0].uid)
    return harness.lines(order.pods[0].uid)[-1:] == ["mark"]


def test_what_a_job_can_enter_is_not_refused(any_harness: Harness, folder: Path) -> None:
    (folder / "mark").touch()
    assert refusal(any_harness, folder) == ""
    assert enters(any_harness, folder)


def test_a_job_does_not_begin_in_a_directory_that_only_has_the_same_name(walled: Harness, tmp_path: Path) -> None:
    for directory in (Path("/tmp"), tmp_path, walled.data_dir, walled.data_dir / "local", Path("/dev/shm")):
        assert refusal(walled, directory) == HIDDEN


def test_what_is_not_there_or_no_directory_is_refused(any_harness: Harness, folder: Path) -> None:
    (folder / "file").touch()
    assert refusal(any_harness, folder / "gone") == "There is no such directory on the server's machine."
    assert refusal(any_harness, folder / "file") == "It is not a directory."


@needs_root
def test_a_user_of_the_workspaces_own_may_not_enter_what_is_closed_to_strangers(walled: Harness, folder: Path) -> None:
    walled.open(first_user=FIRST)
    (folder / "mark").touch()
    below = folder / "below"
    below.mkdir()
    (below / "mark").touch()
    assert (refusal(walled, below), enters(walled, below)) == ("", True)
    folder.chmod(0o700)
    said = f"Jobs run as a user of their workspace's own (number {FIRST + WORKSPACE}), who may not enter it."
    assert (refusal(walled, folder), enters(walled, folder)) == (said, False)
    assert (refusal(walled, below), enters(walled, below)) == (said, False)


def test_a_try_leaves_nothing_behind(walled: Harness, folder: Path) -> None:
    _ = walled.engine
    before = sorted((walled.data_dir / "local").iterdir())
    assert refusal(walled, folder) == ""
    assert sorted((walled.data_dir / "local").iterdir()) == before
