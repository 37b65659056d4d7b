"""What both databases promise to the services."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import LoopRun

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store import open_store
from stoker.store.db.base import Store, Transaction
from stoker.store.sql.sequences import next_value

PUT = "INSERT INTO sequence (name, value) VALUES (:name, :value)"
SET = "UPDATE sequence SET value = :value WHERE name = :name"
GET = "SELECT value FROM sequence WHERE name = :name"
ALL = "SELECT name, value FROM sequence ORDER BY name"
WAIT = 10.0


def put(transaction: Transaction, name: str, value: int = 0) -> int:
    return transaction.execute(PUT, {"name": name, "value": value})


def get(transaction: Transaction, name: str) -> int:
    row = transaction.fetch_one(GET, {"name": name})
    assert row is not None
    return row[0]


@pytest.mark.parametrize("way", ["write", "write_inline"])
def test_a_write_that_fails_takes_nothing_of_its_group_with_it(way: str, store: Store, loop_run: LoopRun) -> None:
    started, go = threading.Event(), threading.Event()

    def hold(transaction: Transaction) -> None:  # so that those behind it share one commit on SQLite
        put(transaction, "first")
        started.set()
        assert go.wait(WAIT)

    def good(name: str) -> Callable[[Transaction], object]:
        return lambda transaction: put(transaction, name)

    def refused(transaction: Transaction) -> None:
        put(transaction, "refused")
        raise StokerError(ErrorCode.FORBIDDEN, "no")

    def doubled(transaction: Transaction) -> None:
        put(transaction, "doubled")
        put(transaction, "doubled")

    def mistaken(transaction: Transaction) -> None:
        put(transaction, "mistaken")
        transaction.execute("UPDATE absent SET here = 1")

    def ended(transaction: Transaction) -> None:
        put(transaction, "ended")
        next(iter(()))

    async def main() -> list[object]:
        first = asyncio.create_task(store.write(hold))
        while not started.is_set():
            await asyncio.sleep(0.001)
        changes = (good("a"), refused, doubled, mistaken, ended, good("b"))
        rest = [asyncio.create_task(getattr(store, way)(change)) for change in changes]
        await asyncio.sleep(0.01)
        go.set()
        return [*await asyncio.wait_for(asyncio.gather(first, *rest, return_exceptions=True), WAIT)]

    results = loop_run(main())
    kinds = ["" if not isinstance(result, BaseException) else type(result).__name__ for result in results]
    assert kinds[0] == kinds[1] == kinds[6] == ""
    assert kinds[2] == "StokerError"
    assert kinds[3] in ("IntegrityError", "UniqueViolation")
    assert kinds[4] in ("OperationalError", "UndefinedTable")
    assert kinds[5] == "RuntimeError"
    rows = loop_run(store.read(lambda transaction: transaction.fetch_all(ALL)))
    assert [name for name, _ in rows] == ["a", "b", "first"]


def test_two_hundred_writers_of_one_counter_lose_no_update(store: Store, loop_run: LoopRun) -> None:
    def increment(transaction: Transaction) -> int:
        value = get(transaction, "shared") + 1
        transaction.execute(SET, {"name": "shared", "value": value})
        return value

    async def main() -> list[int]:
        await store.write(lambda transaction: put(transaction, "shared"))
        return await asyncio.gather(
            *[(store.write, store.write_inline)[number % 2](increment) for number in range(200)]
        )

    assert sorted(loop_run(main())) == list(range(1, 201))
    assert loop_run(store.read_inline(lambda transaction: get(transaction, "shared"))) == 200


def test_numbers_drawn_at_once_are_all_different(store: Store, loop_run: LoopRun) -> None:
    async def main() -> list[int]:
        return await asyncio.gather(*[store.write_inline(lambda tx: next_value(tx, "fresh")) for _ in range(50)])

    assert sorted(loop_run(main())) == list(range(1, 51))


def test_a_read_sees_one_state_from_its_first_row_to_its_last(store: Store, loop_run: LoopRun) -> None:
    looked, changed = threading.Event(), threading.Event()

    def look_twice(transaction: Transaction) -> tuple[int, int]:
        first = get(transaction, "seen")
        looked.set()
        assert changed.wait(WAIT)
        return first, get(transaction, "seen")

    async def main() -> tuple[int, int]:
        await store.write(lambda transaction: put(transaction, "seen", 1))
        reading = asyncio.create_task(store.read(look_twice))
        while not looked.is_set():
            await asyncio.sleep(0.001)
        await store.write(lambda transaction: transaction.execute(SET, {"name": "seen", "value": 2}))
        changed.set()
        return await reading

    assert loop_run(main()) == (1, 1)
    assert loop_run(store.read(lambda transaction: get(transaction, "seen"))) == 2


def test_what_was_written_is_seen_by_the_next_read_and_peek(store: Store, loop_run: LoopRun) -> None:
    async def main() -> None:
        await store.write(lambda transaction: put(transaction, "mine"))
        for value in range(1, 30):
            write = (store.write, store.write_inline)[value % 2]
            await write(lambda transaction, value=value: transaction.execute(SET, {"name": "mine", "value": value}))
            assert await store.read(lambda transaction: get(transaction, "mine")) == value
            assert await store.read_inline(lambda transaction: get(transaction, "mine")) == value

    loop_run(main())


def test_a_read_cannot_write(store: Store, loop_run: LoopRun) -> None:
    with pytest.raises(StokerError, match=r"(?i)read-?only"):
        loop_run(store.read(lambda transaction: put(transaction, "sneaked")))
    assert loop_run(store.read_inline(lambda transaction: transaction.fetch_all(ALL))) == []


def test_a_query_that_ends_an_iterator_too_far_is_an_error_and_no_hang(store: Store, loop_run: LoopRun) -> None:
    for ask in (store.read, store.read_inline):
        with pytest.raises(RuntimeError, match="StopIteration"):
            loop_run(asyncio.wait_for(ask(lambda _transaction: next(iter(()))), WAIT))


def test_rows_are_plain_and_the_same_on_both(store: Store, loop_run: LoopRun) -> None:
    sql = """
    SELECT SUM(CAST(value AS BIGINT)), AVG(value), COUNT(*), MAX(value) > 1, EXISTS (SELECT 1 FROM audit_log),
        CAST(:whole AS BIGINT) + :whole, CAST(:text AS TEXT), CAST(:nothing AS TEXT), SUM(value) / COUNT(*)
    FROM sequence
    """  # a comment: % and :this stay here
    params = {"whole": 2**40, "text": "100 % ünï :x", "nothing": None}

    async def main() -> list[tuple[object, ...]]:
        rows = [{"name": "a", "value": True}, {"name": "b", "value": 2**53}]
        await store.write(lambda transaction: transaction.execute_many(PUT, rows))
        return await store.read(lambda transaction: transaction.fetch_all(sql, params))

    (row,) = loop_run(main())
    assert row[:8] == (2**53 + 1, (2**53 + 1) / 2, 2, 1, 0, 2**41, "100 % ünï :x", None)
    assert [type(value) for value in row[:8]] == [int, float, int, int, int, int, str, type(None)]


def test_the_number_of_changed_rows_is_told(store: Store, loop_run: LoopRun) -> None:
    def change(transaction: Transaction) -> tuple[int, int, int]:
        transaction.execute_many(PUT, [{"name": name, "value": 0} for name in "abc"])
        return (
            transaction.execute("UPDATE sequence SET value = 1 WHERE name < 'c'"),
            transaction.execute("DELETE FROM sequence WHERE name = 'nobody'"),
            transaction.execute("DELETE FROM sequence"),
        )

    assert loop_run(store.write(change)) == (2, 0, 3)


def test_a_closed_store_answers_with_a_sentence(database_url: str, tmp_path: Path, loop_run: LoopRun) -> None:
    store = open_store(database_url, tmp_path, pool=4)
    loop_run(store.close())
    for ask in (store.write, store.read, store.read_inline):
        with pytest.raises(StokerError, match="stopping"):
            loop_run(asyncio.wait_for(ask(lambda transaction: transaction.fetch_all(ALL)), WAIT))


def test_a_store_that_is_closed_finishes_what_was_asked(database_url: str, tmp_path: Path, loop_run: LoopRun) -> None:
    async def main() -> int:
        store = open_store(database_url, tmp_path, pool=4)
        asked = [asyncio.create_task(store.write(lambda tx, n=n: put(tx, f"n{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*asked)
        again = open_store(database_url, tmp_path, pool=4)
        rows = await again.read(lambda transaction: transaction.fetch_all(ALL))
        await again.close()
        return len(rows)

    assert loop_run(main()) == 20


def test_a_database_of_a_newer_version_is_refused_and_left_alone(
    database_url: str, tmp_path: Path, loop_run: LoopRun
) -> None:
    future = {"number": 9999, "name": "tomorrow", "sha256": "0", "applied_at": 1}
    record = "INSERT INTO migration VALUES (:number, :name, :sha256, :applied_at)"
    store = open_store(database_url, tmp_path, pool=4)
    loop_run(store.write(lambda transaction: transaction.execute(record, future)))
    loop_run(store.close())
    for _ in range(2):  # the first refusal holds no lock
        with pytest.raises(StokerError, match=r"newer Stoker: it has migration 9999 \(tomorrow\)") as refused:
            open_store(database_url, tmp_path, pool=4)
        assert refused.value.code is ErrorCode.CONFLICT
