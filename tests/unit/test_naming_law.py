"""The naming rules of CONTRIBUTING.md that a program can check, and proof that each check can fail."""

import ast
import functools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stoker"
MAX_MODULES = 20
MAX_LINES = 400

SAME_NAME: dict[str, str] = {}
"""Class names that may be defined more than once, each with the reason."""

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "stuff", "tools"}


def _modules(source: Path) -> list[Path]:
    return sorted(source.rglob("*.py"))


@functools.cache
def _class_definitions(source: Path) -> dict[str, list[str]]:
    """The files that define each class name; nested and private classes count too."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in _modules(source):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(source).as_posix())
    return found


def duplicate_class_names(source: Path) -> list[str]:
    return [
        f"{name}: {', '.join(files)}"
        for name, files in sorted(_class_definitions(source).items())
        if len(files) > 1 and name not in SAME_NAME
    ]


def modules_that_repeat_their_package(source: Path) -> list[str]:
    return [path.relative_to(source).as_posix() for path in _modules(source) if path.stem == path.parent.name]


def vague_names(source: Path) -> list[str]:
    names = {name for path in _modules(source) for name in (path.stem, path.parent.name)}
    return sorted(names & VAGUE_NAMES)


def crowded_packages(source: Path) -> list[str]:
    packages = sorted({path.parent for path in _modules(source)})
    sizes = {package: len([path for path in package.glob("*.py") if path.stem != "__init__"]) for package in packages}
    return [package.relative_to(source).as_posix() for package, size in sizes.items() if size > MAX_MODULES]


def packages_without_purpose(source: Path) -> list[str]:
    return [
        path.relative_to(source).as_posix()
        for path in _modules(source)
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]


def long_files(source: Path) -> list[str]:
    return [
        path.relative_to(source).as_posix()
        for path in _modules(source)
        if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES
    ]


CHECKS: dict[Callable[[Path], list[str]], dict[str, str]] = {
    duplicate_class_names: {"one.py": "class Node: ...", "two/three.py": "def f():\n    class Node: ..."},
    modules_that_repeat_their_package: {"pods/pods.py": ""},
    vague_names: {"pods/helpers.py": ""},
    crowded_packages: {f"pods/m{number}.py": "" for number in range(MAX_MODULES + 1)},
    packages_without_purpose: {"pods/__init__.py": "import os"},
    long_files: {"pods/long.py": "x = 1\n" * (MAX_LINES + 1)},
}
"""Every check, and files that violate it."""

each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


def test_the_checks_see_the_source() -> None:
    assert len(_modules(SOURCE)) > 500
    assert len(_class_definitions(SOURCE)) > 500


@each_check
def test_the_source_follows_the_rule(check: Callable[[Path], list[str]]) -> None:
    assert check(SOURCE) == []


@each_check
def test_a_violation_of_the_rule_is_found(check: Callable[[Path], list[str]], tmp_path: Path) -> None:
    for name, text in CHECKS[check].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert len(check(tmp_path)) == 1


def test_every_class_name_in_the_allow_list_is_still_defined_twice() -> None:
    definitions = _class_definitions(SOURCE)
    assert [name for name in SAME_NAME if len(definitions[name]) < 2] == []
