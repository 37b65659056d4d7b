"""Services raise domain field names; each API family shows its own."""

import re
from pathlib import Path

import pytest

import stoker
from stoker.api.http.families import MANAGEMENT, MONITORING, NATIVE, RUNAI, ApiFamily
from stoker.domain.errors import ErrorCode, StokerError, bad_request

ROOT = Path(stoker.__file__).parent
RAISED_FIELD = re.compile(r'(?:bad_request\(\s*|field=)"([^"]+)"')


@pytest.mark.parametrize(
    ("family", "field"),
    [(MANAGEMENT, "displayName"), (RUNAI, "name"), (NATIVE, "displayName"), (MONITORING, "display_name")],
)
def test_a_field_has_the_name_of_the_family_in_the_field_and_in_the_message(family: ApiFamily, field: str) -> None:
    shown = family.with_wire_field(bad_request("display_name", "it is not a name.", "Use another."))
    assert (shown.field, shown.message, shown.hint) == (field, f"{field}: it is not a name.", "Use another.")


def test_a_message_that_does_not_begin_with_the_field_stays() -> None:
    error = StokerError(ErrorCode.FORBIDDEN, "The current password is wrong.", field="current_password")
    shown = NATIVE.with_wire_field(error)
    assert (shown.code, shown.message, shown.field) == (error.code, error.message, "currentPassword")


def test_a_family_adds_its_advice_only_to_an_error_without_a_hint() -> None:
    assert "Base64" in MANAGEMENT.with_wire_field(bad_request("entry_point", "it is required.")).hint
    assert MANAGEMENT.with_wire_field(bad_request("entry_point", "it is required.", "Send it.")).hint == "Send it."
    assert RUNAI.with_wire_field(bad_request("entry_point", "it is required.")).hint == ""


@pytest.mark.parametrize("package", ["domain", "scheduler", "services"])
def test_inner_packages_raise_snake_case_field_names(package: str) -> None:
    fields = {
        (path.name, field)
        for path in (ROOT / package).rglob("*.py")
        for field in RAISED_FIELD.findall(path.read_text())
    }
    assert not {pair for pair in fields if not re.fullmatch(r"[a-z][a-z0-9_.]*", pair[1])}
