"""The rooms of src/stoker, and what each may import. ARCHITECTURE.md has the same table in words."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stoker"

MAY_IMPORT: dict[str, set[str]] = {
    "domain": set(),
    "scheduler": {"domain"},
    "usage": {"domain"},
    "store": {"domain"},
    "engines": {"domain"},
    "telemetry": {"domain", "store"},
    "controller": {"domain", "scheduler", "usage", "store", "engines", "telemetry"},
    "services": {"domain", "scheduler", "store"},
    "api": {"services", "domain"},
    "client": {"domain"},
    "cli": {"domain", "client"},
    "job": set(),
}
EVERYTHING = {"server"}
"""The one room that builds all the others."""

SERVER_SIDE = ("cli/verbs/backup.py", "cli/verbs/check.py", "cli/verbs/restore.py", "cli/verbs/serve.py")
"""The verbs that run beside the server. Any other may import the server, but late."""


class Import(Struct, frozen=True):
    """One import of one of our rooms: where it is, what it wants, and whether it runs only when it is needed."""

    file: str
    line: int
    room: str
    wants: str
    late: bool


def _imports(path: Path) -> Iterator[Import]:
    file = path.relative_to(SOURCE).as_posix()
    room = file.partition("/")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {id(inner) for node in ast.walk(tree) if _is_late(node) for inner in ast.walk(node)}
    package = ["stoker", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(tree):
        for module in _modules(node, package):
            if module.split(".")[0] == "stoker" and "." in module:
                yield Import(file, getattr(node, "lineno", 0), room, module.split(".")[1], id(node) in late)


def _is_late(node: ast.AST) -> bool:
    """What lies in a function is imported when it is called, what is for type checkers never."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case _:
            return False


def _modules(node: ast.AST, package: list[str]) -> list[str]:
    """The modules that a statement imports; `from stoker import store` imports the room too."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [alias.name for alias in node.names if not alias.name.startswith("__")]
            return [f"stoker.{name}" for name in names] if module == "stoker" else [module]
        case _:
            return []


def _is_allowed(found: Import) -> bool:
    if found.room in EVERYTHING or found.room == found.wants:
        return True
    if found.wants in MAY_IMPORT[found.room]:
        return True
    if found.room != "cli":
        return False
    return found.wants == "server" and (found.late or found.file in SERVER_SIDE)


def _files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_every_room_is_in_the_table() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= set(MAY_IMPORT) | EVERYTHING


def test_nothing_but_rooms_lies_at_the_top() -> None:
    assert [path.name for path in SOURCE.glob("*.py")] == ["__init__.py"]


def test_no_room_reaches_where_it_may_not() -> None:
    found = [each for path in _files() if path.parent != SOURCE for each in _imports(path)]
    assert len(found) > 100, "the walk sees too little to be trusted"
    broken = [f"{each.file}:{each.line} imports {each.wants}" for each in found if not _is_allowed(each)]
    assert not broken, "\n".join(broken)


def test_the_table_itself_has_no_circle() -> None:
    done: set[str] = set()
    while remaining := {room for room, wants in MAY_IMPORT.items() if room not in done and wants <= done}:
        done |= remaining
    assert done == set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("room", "source", "allowed"),
    [
        ("domain", "from stoker.store.base import Store", False),
        ("domain", "import stoker.store", False),
        ("domain", "from stoker import store", False),
        ("domain", "from stoker import __version__", True),
        ("domain", "from .. import store", False),
        ("domain", "from ..store import open_store", False),
        ("domain", "from . import clock", True),
        ("domain", "from .clock import Clock", True),
        ("api", "from stoker.services.users import Users", True),
        ("api", "from stoker.store import open_store", False),
        ("api", "def f():\n    from stoker.store import open_store", False),
        ("cli", "from stoker.server.serve import serve", False),
        ("cli", "def f():\n    from stoker.server.serve import serve", True),
        ("cli", "if TYPE_CHECKING:\n    from stoker.server.serve import serve", True),
        ("cli", "def f():\n    from stoker.store import open_store", False),
        ("server", "from stoker.controller.retention import forget_once", True),
    ],
)
def test_the_walk_sees_what_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str, source: str, allowed: bool
) -> None:
    monkeypatch.setattr("test_import_law.SOURCE", tmp_path)
    (tmp_path / room).mkdir()
    (tmp_path / room / "module.py").write_text(source)
    found = list(_imports(tmp_path / room / "module.py"))
    assert all(_is_allowed(each) for each in found) == allowed
