"""Folders of workloads go away whatever a job has made of them."""

import os
from pathlib import Path

from stoker.engines.local.pods.paths import LocalPaths, remove_tree


def deep(folder: Path, levels: int) -> None:
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_a_workloads_folder_of_three_thousand_levels_is_discarded(tmp_path: Path) -> None:
    places = LocalPaths(tmp_path)
    work = places.make_working_dir("deep")
    deep(work, 3000)
    places.purge_workload("deep")
    assert not os.path.lexists(work)


def test_a_wide_tree_without_permissions_is_removed(tmp_path: Path) -> None:
    for path in ("t/a/x", "t/a/y/z", "t/b/x", "t/b/y"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "file").touch()
    for path in ("t/a/y/z", "t/a/y", "t/b", "t"):
        (tmp_path / path).chmod(0)
    remove_tree(tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_what_they_point_to_is_not(tmp_path: Path) -> None:
    kept, tree = tmp_path / "kept", tmp_path / "tree"
    for folder in (kept, tree / "inner"):
        folder.mkdir(parents=True)
    (kept / "file").touch()
    kept.chmod(0o750)
    for place in (tree / "link", tree / "inner" / "link", tmp_path / "top"):
        place.symlink_to(kept)
    remove_tree(tree)
    remove_tree(tmp_path / "top")
    remove_tree(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == [kept]
    assert (kept / "file").exists()
    assert kept.stat().st_mode & 0o777 == 0o750
