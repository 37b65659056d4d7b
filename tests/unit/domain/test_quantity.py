from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.cluster.quantity import (
    MAX_QUANTITY,
    format_bytes,
    format_milli,
    humanize_bytes,
    parse_bytes,
    parse_milli,
)
from stoker.domain.errors import ErrorCode, StokerError

Reader = Callable[[str, str], int]

readers = st.sampled_from([parse_milli, parse_bytes])
amounts = st.integers(min_value=0, max_value=MAX_QUANTITY)
likely = st.text(alphabet="0123456789.+-eEnumkKMGTPi \n", max_size=70)


def refused(read: Reader, text: str) -> str:
    with pytest.raises(StokerError) as caught:
        read(text, "memory")
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert caught.value.field == "memory"
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("2", 2000),
        ("0.5", 500),
        ("100m", 100),
        ("+1", 1000),
        ("5.", 5000),
        (".25", 250),
        ("1k", 1_000_000),
        ("1.5e-1", 150),
        ("0", 0),
        ("-0", 0),
        ("1u", 1),
        ("1n", 1),
        ("0.0001", 1),
        ("1.0001", 1001),
    ],
)
def test_cpu_is_counted_in_thousandths_and_rounded_up(text: str, thousandths: int) -> None:
    assert parse_milli(text, "cpu") == thousandths


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("256Gi", 256 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("200M", 200_000_000),
        ("1k", 1000),
        ("1K", 1000),
        ("1Ki", 1024),
        ("1T", 10**12),
        ("1Pi", 2**50),
        ("1e9", 10**9),
        ("1E9", 10**9),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("12e-1", 2),
        ("100m", 1),
        ("0.1Ki", 103),
        ("9223372036854775807", MAX_QUANTITY),
    ],
)
def test_memory_is_counted_in_bytes_and_rounded_up(text: str, size: int) -> None:
    assert parse_bytes(text, "memory") == size


@pytest.mark.parametrize(
    "text",
    ["", ".", "Gi", "e9", "1e", "1e1.5", "1Ee3", "1ki", "1mi", "1 Gi", " 1", "1\n", "1,5", "0x10", "1_000", "٣", "NaN"],
)
def test_what_kubernetes_would_not_read_is_refused(text: str) -> None:
    assert "is not a quantity" in refused(parse_bytes, text)
    assert "is not a quantity" in refused(parse_milli, text)


def test_the_error_names_the_field_and_shows_what_to_write() -> None:
    assert refused(parse_bytes, "256GiB") == (
        'memory: "256GiB" is not a quantity. Use a number with Ki, Mi, Gi, Ti or K, M, G, T, for example "256Gi".'
    )
    with pytest.raises(StokerError) as caught:
        parse_milli("two", "cpu")
    assert caught.value.message == 'cpu: "two" is not a quantity. Use a number such as "2", "0.5" or "500m".'


@pytest.mark.parametrize("text", ["-1", "-1n", "-5Gi", "-1e-99999999"])
def test_less_than_zero_is_refused_in_its_own_words(text: str) -> None:
    assert refused(parse_bytes, text) == f'memory: "{text}" is less than zero. Use 0 or more.'


@pytest.mark.parametrize("text", ["8Ei", "9223372036854775808", "9223372036854775807.1", "1e19", "1e" + "9" * 62])
def test_more_than_63_bits_of_memory_is_refused_with_the_limit(text: str) -> None:
    assert refused(parse_bytes, text) == f'memory: "{text}" is too large. Use at most 9223372036854775807 bytes.'


def test_the_limit_of_cpu_holds_for_thousandths() -> None:
    assert parse_milli("9223372036854775807m", "cpu") == MAX_QUANTITY
    assert "is too large" in refused(parse_milli, "9223372036854775807")


def test_an_endless_exponent_costs_nothing() -> None:
    assert parse_bytes("0e" + "9" * 62, "memory") == 0
    assert parse_bytes("1e-" + "9" * 61, "memory") == 1


def test_a_text_of_more_than_64_characters_is_refused_unread() -> None:
    assert parse_bytes("0" * 63 + "7", "memory") == 7
    assert "at most 64 characters, this one has 65" in refused(parse_bytes, "1" * 65)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (2000, "2"), (500, "500m"), (2500, "2500m"), (1, "1m")])
def test_thousandths_are_shown_whole_where_they_are_whole(value: int, text: str) -> None:
    assert format_milli(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "1"), (1000, "1000"), (1024, "1Ki"), (3 * 2**29, "1536Mi"), (2**30, "1Gi"), (7 * 2**60, "7Ei")],
)
def test_bytes_are_shown_with_the_largest_suffix_that_loses_nothing(value: int, text: str) -> None:
    assert format_bytes(value) == text


@given(amounts)
def test_what_is_shown_reads_back_the_same(value: int) -> None:
    assert parse_milli(format_milli(value), "cpu") == value
    assert parse_bytes(format_bytes(value), "memory") == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (96 * 2**20, "96 MiB"),
        (700_000_000, "667.572 MiB"),
        (9000 * 2**30, "9,000 GiB"),
    ],
)
def test_memory_is_said_in_a_unit_that_a_person_uses(value: int, words: str) -> None:
    assert humanize_bytes(value) == words


@given(amounts, amounts, st.sampled_from(["n", "u", "m", ""]))
def test_more_is_never_read_as_less(one: int, other: int, suffix: str) -> None:
    less, more = sorted((one, other))
    assert parse_bytes(f"{less}{suffix}", "memory") <= parse_bytes(f"{more}{suffix}", "memory")


@given(st.decimals(min_value=0, max_value=2**40, places=6, allow_nan=False, allow_infinity=False))
def test_rounding_goes_up_and_by_less_than_one(value: object) -> None:
    exact = Fraction(str(value))
    assert 0 <= parse_bytes(f"{value:f}", "memory") - exact < 1
    assert 0 <= parse_milli(f"{value:f}", "cpu") - exact * 1000 < 1


@given(readers, st.one_of(st.text(), likely))
def test_any_text_is_a_quantity_in_range_or_a_stoker_error(read: Reader, text: str) -> None:
    with suppress(StokerError):
        assert 0 <= read(text, "memory") <= MAX_QUANTITY
