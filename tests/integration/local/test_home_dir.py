"""Jobs may read but not write the home of the server's user, wherever it is."""

import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.local.harness import Harness

from stoker.engines.local.isolation.containment import home_directories


@pytest.fixture
def folders() -> Iterator[tuple[Path, Path]]:
    """Two directories outside /tmp."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/var/tmp") as name:
        found = Path(name) / "home", Path(name) / "account"
        for folder in found:
            folder.mkdir()
            (folder / "file").write_text("kept\n")
        yield found


def account(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    entry = pwd.struct_passwd(("stoker", "x", 0, 0, "", str(home), "/bin/sh"))
    monkeypatch.setattr("pwd.getpwuid", lambda _: entry)


def test_both_the_home_of_the_environment_and_that_of_the_account_are_read_only(
    walled: Harness, monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path]
) -> None:
    home, of_account = folders
    monkeypatch.setenv("HOME", str(home))
    account(monkeypatch, of_account)
    tries = [f"cat {folder}/file; touch {folder}/new && echo wrote" for folder in folders]
    uid = walled.job(f"{'; '.join(tries)}; touch {home.parent}/beside && echo beside; exit 0")
    walled.end(uid)
    lines = walled.lines(uid)
    assert lines.count("kept") == 2
    assert "wrote" not in lines
    assert lines[-1] == "beside"
    assert not [folder for folder in folders if (folder / "new").exists()]


def test_a_home_that_no_job_sees_is_not_shown_to_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    account(monkeypatch, folders[1])
    for hidden in (tmp_path, Path("/tmp"), Path("/"), Path("/nowhere"), Path("relative")):
        monkeypatch.setenv("HOME", str(hidden))
        assert home_directories() == [str(folders[1])]
    monkeypatch.delenv("HOME")
    assert home_directories() == [str(folders[1])]
    monkeypatch.setenv("HOME", str(folders[1]))
    assert home_directories() == [str(folders[1])]


def test_a_home_in_the_data_directory_stays_hidden_and_jobs_run(
    walled: Harness, monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path]
) -> None:
    data_dir = folders[0].parent / "data"  # outside /tmp, which jobs have of their own
    harness = Harness(data_dir, walled.mode)
    home = data_dir / "home"
    home.mkdir()
    (home / "file").touch()
    try:
        for place in (home, data_dir, data_dir.parent):
            monkeypatch.setenv("HOME", str(place))
            uid = harness.job(f"ls {home}; ls {data_dir}; echo ran; touch file && echo wrote")
            assert harness.end(uid).exit_code == 0
            assert harness.lines(uid)[-3:] == ["local", "ran", "wrote"]
            assert "file" not in harness.lines(uid)
    finally:
        harness.finish()
