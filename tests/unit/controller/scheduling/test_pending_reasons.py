"""Reasons why workloads wait: at once for a short queue, in turn for a long one, a few at a time."""

from tests.unit.scheduler.test_scheduler_view import NOW, under_way, workload

from stoker.controller.waits import AT_ONCE, PAUSE_MS, Waits
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Spec, Wait
from stoker.scheduler import Planner
from stoker.scheduler.view import View


def crowd(count: int) -> tuple[View, Planner]:
    """So many that want more than is free; the first blocks the others."""
    spec = Spec(resources=Resources(16 * MILLI, 1, 1))
    view = View(under_way([workload(f"w{number:04}", Kind.JOB, spec=spec) for number in range(count)], []))
    return view, Planner(view.snapshot(NOW))


def test_a_short_queue_is_told_at_once_and_only_when_something_is_new() -> None:
    view, planner = crowd(3)
    waits = Waits()
    said = waits.to_say(view, planner.plan(), NOW)
    assert {uid: why.code for uid, why in said.items()} == {
        "w0000": "no_room",
        "w0001": "behind_head",
        "w0002": "behind_head",
    }
    waits.said(view, said)
    assert waits.to_say(view, planner.plan(), NOW) == {}
    assert waits.again_at(NOW) is None
    waits.take(())
    assert waits.to_say(view, planner.plan(), NOW) == {}


def test_a_long_queue_is_told_in_turn() -> None:
    view, planner = crowd(3 * AT_ONCE - 10)
    waits, now, parts = Waits(), NOW, []
    while waits.again_at(now) is not None:
        said = waits.to_say(view, planner.plan(), now)
        waits.said(view, said)
        parts.append(len(said))
        assert waits.to_say(view, planner.plan(), now) == {}
        now += PAUSE_MS
    assert parts == [AT_ONCE, AT_ONCE, AT_ONCE - 10]
    assert all(each.waiting for each in view.workloads.values())


def test_what_has_just_begun_to_wait_is_told_before_its_turn() -> None:
    view, planner = crowd(2 * AT_ONCE)
    waits = Waits()
    waits.said(view, waits.to_say(view, planner.plan(), NOW))
    newest = list(view.waiting)[-1]
    waits.take([newest])
    assert list(waits.to_say(view, planner.plan(), NOW)) == [newest]


def test_a_sentence_whose_word_is_not_known_yet_is_told_again() -> None:
    view, planner = crowd(1)
    waits = Waits()
    [(uid, why)] = waits.to_say(view, planner.plan(), NOW).items()
    waits.said(view, {uid: Wait("", why.sentence)})
    waits.take([uid])
    assert waits.to_say(view, planner.plan(), NOW) == {uid: why}
