"""Names and ids that are legal in every place they are later put."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import check_slug, check_user_name, natural_sort_key, new_uuid4, new_uuid7

KUBERNETES_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize("name", ["a", "vision", "vision-team", "a1", "a" * 63, "a--b"])
def test_a_slug_is_a_name_that_kubernetes_takes(name: str) -> None:
    assert check_slug(name, "name") == name
    assert KUBERNETES_NAME.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a b", "a/b", "é", "a\n", "\na", "a\0", "a" * 64]
)
def test_anything_else_is_no_slug(name: str) -> None:
    with pytest.raises(StokerError) as raised:
        check_slug(name, "namespace")
    assert (raised.value.code, raised.value.field) == (ErrorCode.BAD_REQUEST, "namespace")
    assert raised.value.message == (
        f'namespace: "{name[:80]}" is not a name. Use 1 to 63 lower-case letters, digits and "-", '
        'beginning with a letter and not ending in "-", for example "vision-team".'
    )


@pytest.mark.parametrize("name", ["a", "1", "li.wei", "li@example.com", "a-b", "a" * 63])
def test_a_user_name_may_look_like_an_address(name: str) -> None:
    assert check_user_name(name, "name") == name


@pytest.mark.parametrize("name", ["", "Li", "li wei", ".li", "li.", "@li", "li_wei", "li/wei", "é", "li\n", "a" * 64])
def test_anything_else_is_no_user_name(name: str) -> None:
    with pytest.raises(StokerError, match="is not a user name"):
        check_user_name(name, "name")


@given(st.text(max_size=70))
def test_what_is_taken_never_needs_quoting(name: str) -> None:
    for check, pattern in ((check_slug, r"[-a-z0-9]{1,63}"), (check_user_name, r"[-a-z0-9.@]{1,63}")):
        try:
            check(name, "name")
        except StokerError:
            continue
        assert re.fullmatch(pattern, name)


def test_a_new_uuid_is_of_version_4_and_random_as_its_source() -> None:
    assert new_uuid4(lambda size: b"\xff" * size) == "ffffffff-ffff-4fff-bfff-ffffffffffff"
    assert len({new_uuid4() for _ in range(100)}) == 100


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_an_ordered_uuid_is_of_version_7_and_holds_its_time(now: int, tail: bytes) -> None:
    made = uuid.UUID(new_uuid7(now, lambda size: tail[:size]))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == now


@given(st.integers(0, 2**47), st.integers(1, 2**40))
def test_ordered_uuids_sort_as_text_by_time(earlier: int, difference: int) -> None:
    assert new_uuid7(earlier) < new_uuid7(earlier + difference)


def test_numbers_in_names_are_sorted_by_their_size() -> None:
    names = ["gpu-node-10", "gpu-node-2", "gpu-node-1a", "rack10-n2", "rack9-n10", "gpu", "gpu-node-100", "n007", "n7"]
    assert sorted(names, key=natural_sort_key) == [
        "gpu",
        "gpu-node-1a",
        "gpu-node-2",
        "gpu-node-10",
        "gpu-node-100",
        "n007",
        "n7",
        "rack9-n10",
        "rack10-n2",
    ]


@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_any_two_numbers_are_sorted_by_their_size(one: int, other: int) -> None:
    assert (natural_sort_key(f"n{one}") < natural_sort_key(f"n{other}")) is (one < other)
