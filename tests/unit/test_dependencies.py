"""The declared dependencies are the imported packages."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from stoker.domain.diagnostics import CheckStatus
from stoker.domain.settings.schema import Settings
from stoker.server.diagnostics import host

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = {name: found for name, found in PROJECT["optional-dependencies"].items() if name != "dev"}
NOT_INSTALLED_HERE = {"amdsmi": "amdsmi"}
"""Distributions that the development requirements leave out, with the module that they bring."""
IMPORTED_BY_DEPENDENCY = {"sniffio": "httpcore"}
"""Optional packages of a dependency. httpcore looks for sniffio in every request, and a search in vain is slow."""


def test_every_core_dependency_is_imported_by_the_code() -> None:
    idle = {name for name in map(named, PROJECT["dependencies"]) if not modules(name) & imported()}
    assert idle == set(IMPORTED_BY_DEPENDENCY)


@pytest.mark.parametrize(("optional", "dependency"), IMPORTED_BY_DEPENDENCY.items())
def test_a_dependency_imports_the_optional_package(optional: str, dependency: str) -> None:
    [folder] = importlib.import_module(dependency).__path__
    assert optional in {name for path in Path(folder).rglob("*.py") for name in _imports(path)}


def test_every_extra_is_imported_by_the_code() -> None:
    idle = {extra for extra, found in OPTIONAL.items() if not any(modules(named(each)) & imported() for each in found)}
    assert idle == set()


def test_nvidia_cards_are_read_without_an_extra() -> None:
    assert "nvidia-ml-py" in map(named, PROJECT["dependencies"])
    for lock in ("run.txt", "dev.txt"):
        assert re.search(r"^nvidia-ml-py==", (ROOT / "requirements" / lock).read_text(), re.MULTILINE), lock


def test_check_knows_the_extras_of_the_package() -> None:
    assert host.MODULE_BY_EXTRA.keys() == OPTIONAL.keys()


@pytest.mark.parametrize(("amd", "offered"), [(True, ["amd", "parquet"]), (False, ["parquet"])])
def test_check_offers_only_extras_that_change_something_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amd: bool, offered: list[str]
) -> None:
    monkeypatch.setattr(host, "_is_installed", lambda module: module == "psycopg")
    if amd:
        (tmp_path / "sys/class/kfd/kfd/topology").mkdir(parents=True)
    finding = host.check_extras(Settings(), tmp_path)
    assert finding.verdict is CheckStatus.OK
    assert re.findall(r"stoker\[(\w+)\]", finding.message) == offered


def named(requirement: str) -> str:
    found = re.match(r"[a-z0-9-]+", requirement)
    assert found is not None
    return found.group()


@cache
def modules(distribution: str) -> set[str]:
    """The top modules that a distribution brings."""
    if distribution in NOT_INSTALLED_HERE:
        return {NOT_INSTALLED_HERE[distribution]}
    return {module for module, brought in packages_distributions().items() if distribution in map(canonical, brought)}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def imported() -> set[str]:
    """The top modules that the code imports, also those that it imports by a name in a text."""
    diagnostics = ROOT / "src/stoker/server/diagnostics"  # they only ask what is installed
    assert diagnostics.is_dir()
    return {name for path in (ROOT / "src").rglob("*.py") if path.parent != diagnostics for name in _imports(path)}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
