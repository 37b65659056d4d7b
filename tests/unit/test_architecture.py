"""The pages about the source name files and classes that exist, and ARCHITECTURE.md states the import law."""

import re
from pathlib import Path

import pytest
from tests.unit.test_import_law import MAY_IMPORT, UNRESTRICTED

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "stoker"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]


def missing_paths(text: str) -> list[str]:
    """Paths in code quotes that are no file or folder of the source or of the repository."""
    named = re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)+(?:\.py|/)?)`", text)
    return [path for path in named if not any((root / path).exists() for root in (SOURCE, ROOT))]


def missing_names(text: str) -> list[str]:
    """Names that a text mentions with a module, as in "`path.py` (`Name`)" or "`Name` in `path.py`", and it lacks."""
    pairs = re.findall(r"`([a-z_/]+\.py)`\s+\(`(\w+)`\)", text)
    pairs += [(path, name) for name, path in re.findall(r"`(\w+)`\s+in\s+`([a-z_/]+\.py)`", text)]
    return [
        f"{path}: {name}"
        for path, name in pairs
        if not re.search(
            rf"^\s*(?:(?:class|def|async def) {name}\b|{name}\b)",
            (SOURCE / path).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_paths_that_a_page_names_exist(page: Path) -> None:
    assert missing_paths(page.read_text(encoding="utf-8")) == []


def test_the_modules_define_the_names_that_the_walks_mention() -> None:
    assert len(re.findall(r"`[a-z_/]+\.py`", PAGE)) > 80
    assert missing_names(PAGE) == []


def test_a_path_or_a_name_that_does_not_exist_is_found() -> None:
    assert missing_paths("`store/workloads/no_such.py` and `store/db`") == ["store/workloads/no_such.py"]
    text = "`api/http/app.py` (`NoSuch`), `AsgiApp` in `api/http/app.py`"
    assert missing_names(text) == ["api/http/app.py: NoSuch"]


def test_the_table_of_packages_is_the_import_law() -> None:
    rows = re.findall(r"^\| `(\w+)/` \| .* \| (.*) \|$", PAGE, re.MULTILINE)
    assert {package for package, _ in rows} == set(MAY_IMPORT) | UNRESTRICTED
    for package, allowed in rows:
        words = {word.strip() for word in allowed.split(";")[0].split(",")}
        if package in MAY_IMPORT and words != {"all of the above"}:
            assert words - {"nothing of Stoker"} == MAY_IMPORT[package], package
