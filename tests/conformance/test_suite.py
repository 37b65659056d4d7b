"""The suite has every behaviour, and its page describes the whole protocol."""

import importlib
from pathlib import Path

import msgspec
from tests.conformance import suite
from tests.conformance.engine_fixture import EngineFixture, Feature

from stoker.domain.cluster.capabilities import Capabilities
from stoker.engines.protocol import Engine

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "engines.md").read_text()
SELF_EXPLAINED = {"capabilities", "check_working_directory", "list_shells", "service_address", "service_endpoints"}
"""Members of the protocol whose docstrings say everything."""


def test_every_class_of_tests_is_exported() -> None:
    found = set()
    for path in (HERE / "behaviours").glob("*.py"):
        module = importlib.import_module(f"tests.conformance.behaviours.{path.stem}")
        found |= {name for name in vars(module) if name.startswith("Test")}
    assert found == {name for name in suite.__all__ if name.startswith("Test")}
    assert len(found) > 10


def test_the_page_names_every_capability_and_every_call() -> None:
    calls = {name for name in vars(Engine) if not name.startswith("_")} - SELF_EXPLAINED
    capabilities = {field.name for field in msgspec.structs.fields(Capabilities)}
    assert [name for name in sorted(calls | capabilities) if f"`{name}`" not in PAGE] == []


def test_every_feature_is_needed_by_a_test() -> None:
    used = "".join(path.read_text() for path in (HERE / "behaviours").glob("*.py"))
    assert [feature for feature in Feature if f"Feature.{feature.name}" not in used] == []
    assert EngineFixture.unsupported == {}
