"""The packages of src/stoker and what each may import. ARCHITECTURE.md describes the same law."""

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stoker"

MAY_IMPORT: dict[str, set[str]] = {
    "domain": set(),
    "concurrency": {"domain"},
    "scheduler": {"domain"},
    "usage": {"domain"},
    "store": {"concurrency", "domain"},
    "engines": {"concurrency", "domain"},
    "telemetry": {"concurrency", "domain", "store"},
    "controller": {"concurrency", "domain", "scheduler", "usage", "store", "engines", "telemetry"},
    "services": {"concurrency", "domain", "scheduler", "store"},
    "demo": {"concurrency", "domain", "store", "engines", "telemetry", "controller", "services"},
    "wire": {"domain"},
    "api": {"concurrency", "services", "domain", "wire"},
    "client": {"concurrency", "domain", "wire"},
    "cli": {"concurrency", "domain", "client", "wire"},
    "job": set(),
}
UNRESTRICTED = {"server"}
"""The composition root: the only package that may import every other one."""

SERVER_COMMANDS = (
    "cli/commands/server/backup.py",
    "cli/commands/server/check.py",
    "cli/commands/server/serve.py",
)
"""Commands that run beside the server and import it at once. Other commands import it inside a function."""

SIBLINGS: dict[str, dict[str, set[str]]] = {
    "api": {"native": {"compat", "http"}, "compat": {"http"}},
    "api/compat": {"aggregation": {"monitoring"}, "runai": {"management"}},
    "api/compat/runai": {"metrics": {"workloads"}},
    "cli": {
        "commands": {"core", "input", "remote", "render"},
        "remote": {"core", "render"},
        "render": {"core", "input"},
        "input": {"core"},
        "core": {"render"},
    },
    "client": {"resources": {"transport"}, "transport": {"resources"}},
    "controller": {
        "reconcile": {"collect", "runtime", "scheduling"},
        "scheduling": {"reconcile"},
        "collect": {"policy", "runtime"},
        "webhooks": {"runtime"},
    },
    "domain": {
        "access": {"cluster", "workload"},
        "cluster": {"access", "metrics"},
        "metrics": {"cluster", "workload"},
        "queries": {"access", "cluster", "workload"},
        "usage": {"cluster"},
        "webhooks": {"workload"},
        "workload": {"access", "cluster"},
    },
    "engines": {
        "docker": {"proxy", "replicas"},
        "local": {"proxy", "replicas"},
        "replicas": {"proxy"},
    },
    "engines/local": {
        "pods": {"isolation", "node", "shim"},
        "node": {"isolation", "shim"},
        "isolation": {"shim"},
    },
    "engines/simulated": {
        "output": {"fleet", "pods"},
        "pods": {"fleet", "output", "signals"},
        "signals": {"fleet"},
    },
    "scheduler": {
        "explain": {"capacity", "cycle", "placement", "quota"},
        "cycle": {"capacity", "placement", "quota"},
        "placement": {"capacity", "cycle", "quota"},
        "quota": {"capacity", "cycle", "explain"},
        "capacity": {"quota"},
    },
    "services": {
        "metrics": {"fleet"},
        "usage": {"fleet", "identity"},
        "workloads": {"fleet"},
    },
    "store": {
        "cluster": {"db", "identity", "sql", "webhooks", "workloads"},
        "identity": {"db", "sql", "usage"},
        "sql": {"db"},
        "telemetry": {"db", "sql", "usage"},
        "usage": {"db", "sql"},
        "webhooks": {"cluster", "db", "identity", "sql", "workloads"},
        "workloads": {"cluster", "db", "sql", "usage", "webhooks"},
    },
    "telemetry": {
        "collectors": {"prometheus"},
        "idle": {"tsdb"},
        "live": {"idle", "tsdb"},
        "query": {"collectors", "prometheus", "tsdb"},
    },
}
"""For each package with sub-packages: which of its siblings each of them may import. One that is not listed may import
none of them, so engines, and databases in `store/db`, do not know each other."""

SELF_CONTAINED = ("engines/local/shim",)
"""Sub-packages that import nothing of Stoker but themselves: they run in processes of their own."""


class Import(Struct, frozen=True):
    """One import of a module of Stoker. `is_late` means that it runs only when a function is called, or never."""

    file: str
    line: int
    target: tuple[str, ...]
    is_late: bool

    @property
    def importer(self) -> tuple[str, ...]:
        return tuple(self.file.split("/")[:-1])

    @property
    def package(self) -> str:
        return self.importer[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {'.'.join(self.target)}"


def _imports(path: Path) -> Iterator[Import]:
    file = path.relative_to(SOURCE).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {id(inner) for node in ast.walk(tree) if _is_late(node) for inner in ast.walk(node)}
    package = ["stoker", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(tree):
        for name in _imported_names(node, package):
            root, *target = name.split(".")
            if root == "stoker" and target and not target[0].startswith("__"):
                yield Import(file, getattr(node, "lineno", 0), tuple(target), id(node) in late)


def _is_late(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case _:
            return False


def _imported_names(node: ast.AST, package: list[str]) -> list[str]:
    """The full names that a statement imports, whether they are modules or objects of a module."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = [*above, *([node.module] if node.module else [])]
            return [".".join([*module, alias.name]) for alias in node.names]
        case _:
            return []


def _is_allowed(found: Import) -> bool:
    target = found.target[0]
    if found.package in UNRESTRICTED or found.package == target:
        return True
    if target in MAY_IMPORT[found.package]:
        return True
    if found.package != "cli":
        return False
    return target in {"demo", "server"} and (found.is_late or found.file in SERVER_COMMANDS)


def _sibling_import(found: Import) -> tuple[str, str, str] | None:
    """The common parent, the importing and the imported sub-package; None if the import does not cross between two."""
    depth = 0
    while depth < min(len(found.importer), len(found.target)) and found.importer[depth] == found.target[depth]:
        depth += 1
    parent = "/".join(found.importer[:depth])
    if depth in {0, len(found.importer), len(found.target)}:
        return None
    if not (SOURCE / parent / found.target[depth]).is_dir():
        return None
    return parent, found.importer[depth], found.target[depth]


def _is_allowed_between_siblings(found: Import) -> bool:
    if any(found.file.startswith(f"{each}/") for each in SELF_CONTAINED):
        own = found.importer
        return found.target[: len(own)] == own
    crossing = _sibling_import(found)
    if crossing is None:
        return True
    parent, importer, imported = crossing
    return imported in SIBLINGS.get(parent, {}).get(importer, set())


@functools.cache
def _all_imports() -> list[Import]:
    found = [each for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE for each in _imports(path)]
    assert len(found) > 1000, "too few imports were found for the checks to mean anything"
    return found


def test_every_package_is_in_the_table() -> None:
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == set(MAY_IMPORT) | UNRESTRICTED


def test_the_top_level_contains_only_packages() -> None:
    assert [path.name for path in SOURCE.glob("*.py")] == ["__init__.py"]


def test_no_package_imports_against_the_law() -> None:
    assert [str(each) for each in _all_imports() if not _is_allowed(each)] == []


def test_no_sub_package_imports_against_the_law() -> None:
    assert [str(each) for each in _all_imports() if not _is_allowed_between_siblings(each)] == []


def test_the_law_between_sub_packages_lists_only_imports_that_exist() -> None:
    listed = {
        (parent, importer, imported)
        for parent, importers in SIBLINGS.items()
        for importer, allowed in importers.items()
        for imported in allowed
    }
    assert listed - {_sibling_import(each) for each in _all_imports()} == set()


def test_the_packages_have_no_import_cycle() -> None:
    done: set[str] = set()
    while remaining := {each for each, imported in MAY_IMPORT.items() if each not in done and imported <= done}:
        done |= remaining
    assert done == set(MAY_IMPORT)


@pytest.fixture
def source_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("package", "source", "allowed"),
    [
        ("domain", "from stoker.store.db.base import Store", False),
        ("domain", "import stoker.store", False),
        ("domain", "from stoker import store", False),
        ("domain", "from stoker import __version__", True),
        ("domain", "from .. import store", False),
        ("domain", "from ..store import open_store", False),
        ("domain", "from . import clock", True),
        ("domain", "from .clock import Clock", True),
        ("api", "from stoker.services.identity.users import Users", True),
        ("api", "from stoker.store import open_store", False),
        ("api", "def f():\n    from stoker.store import open_store", False),
        ("cli", "from stoker.server.http_server import serve", False),
        ("cli", "def f():\n    from stoker.server.http_server import serve", True),
        ("cli", "if TYPE_CHECKING:\n    from stoker.server.http_server import serve", True),
        ("cli", "def f():\n    from stoker.store import open_store", False),
        ("server", "from stoker.controller.policy.retention import purge_once", True),
    ],
)
def test_an_import_of_another_package_is_judged(source_tree: Path, package: str, source: str, allowed: bool) -> None:
    (source_tree / package).mkdir()
    module = source_tree / package / "module.py"
    module.write_text(source)
    assert all(_is_allowed(each) for each in _imports(module)) == allowed


@pytest.mark.parametrize(
    ("package", "source", "allowed"),
    [
        ("engines/simulated", "from stoker.engines.local.engine import LocalEngine", False),
        ("engines/simulated", "from stoker.engines import local", False),
        ("engines/simulated", "from ..local import engine", False),
        ("engines/simulated", "from stoker.engines.protocol import Engine", True),
        ("engines/new", "from stoker.engines.local.engine import LocalEngine", False),
        ("engines/local/shim", "from stoker.engines.local.node.host import describe_node", False),
        ("engines/local/shim", "from stoker.domain.clock import Clock", False),
        ("engines/local/shim", "from . import signals", True),
        ("engines/local/pods", "from stoker.engines.local.shim import pod_dir", True),
        ("api/compat/monitoring", "from stoker.api.compat.management.enums import PRIORITIES", False),
        ("api/compat/runai/workloads", "from stoker.api.compat.management.schemas import Body", True),
        ("services/fleet", "from stoker.services.workloads.queries import WorkloadQueries", False),
        ("services/fleet", "from stoker.services.context import Context", True),
        ("usage", "from stoker.domain.usage.ledger import LedgerEntry", True),
    ],
)
def test_an_import_of_a_sibling_is_judged(source_tree: Path, package: str, source: str, allowed: bool) -> None:
    for each in (package, "engines/local/node", "engines/local/shim", "api/compat/management", "services/workloads"):
        (source_tree / each).mkdir(parents=True, exist_ok=True)
    module = source_tree / package / "module.py"
    module.write_text(source)
    assert all(_is_allowed_between_siblings(each) for each in _imports(module)) == allowed
