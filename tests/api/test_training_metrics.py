"""Training metrics in the native family: who may report, what is taken, and what is read back."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH, START, V1, Harness
from tests.contract.monitoring.harness import MonitoringHarness

from stoker.api.native.workloads import training as native
from stoker.domain.metrics.report_token import TOKEN_GRACE_MS, TOKEN_PREFIX, create_report_token
from stoker.server.composition import SIGNING_KEY_NAME
from stoker.services.metrics import training as services
from stoker.store.identity import secrets

STAFF = ("viewer", "member", "manager", "outsider", "admin")


@pytest.fixture
def harness(tmp_path: Any) -> Iterator[MonitoringHarness]:
    with MonitoringHarness(tmp_path / "data") as opened:
        opened.add_staff()
        yield opened


def path(ref: str) -> str:
    return f"{V1}/workloads/{ref}/training-metrics"


def token(harness: Harness, pod_uid: str) -> str:
    """What the engine gives to a pod."""
    key = harness.run(harness.installation.store.write(lambda tx: secrets.get_or_add(tx, SIGNING_KEY_NAME, "", 0)))
    return create_report_token(key, pod_uid)


def curves(harness: Harness, ref: str, query: str = "") -> dict[str, list[tuple[int | None, float]]]:
    answer = harness.get(f"{path(ref)}{query}", as_="viewer")
    assert answer.status_code == 200, answer.text
    return {each["metric"]: [(p["step"], p["value"]) for p in each["points"]] for each in answer.json()["items"]}


def test_one_report_and_a_list_of_them_are_read_back_by_metric(harness: MonitoringHarness) -> None:
    ref = harness.submit()
    one = harness.post(path(ref), as_="member", json={"step": 1, "metrics": {"loss": 2.5, "train/acc": 0.5}})
    assert (one.status_code, one.content) == (204, b"")
    harness.clock.advance(seconds=1)
    many = [{"step": 2, "metrics": {"loss": 2.25}}, {"metrics": {"Tokens/s": 10}, "at": "2026-01-15T10:00:00Z"}]
    assert harness.post(path(ref), as_="member", json=many).status_code == 204
    assert curves(harness, ref) == {
        "accuracy": [(1, 0.5)],
        "loss": [(1, 2.5), (2, 2.25)],
        "tokens_per_second": [(None, 10.0)],
    }
    assert curves(harness, ref, "?end=2026-01-15T10:15:00Z") == {"tokens_per_second": [(None, 10.0)]}
    found = harness.run(
        harness.installation.services.training.read_points(harness.inside(ref).uid, START, START + 500, "loss")
    )
    assert found.value.tolist() == [2.5]


def test_a_long_curve_is_thinned_and_says_so(harness: MonitoringHarness) -> None:
    ref = harness.submit()
    for first in range(0, 3000, 1000):
        sent = [{"step": n, "metrics": {"loss": float(n)}} for n in range(first, first + 1000)]
        assert harness.post(path(ref), as_="member", json=sent).status_code == 204
        harness.clock.advance(seconds=1)
    [shown] = harness.get(f"{path(ref)}?limit=5", as_="viewer").json()["items"]
    assert shown["count"] == 3000
    assert [point["step"] for point in shown["points"]] == [0, 750, 1500, 2249, 2999]


def test_curves_are_made_beside_the_event_loop(harness: MonitoringHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code may make up a metric for every step; other requests do not wait for them."""
    ref = harness.submit()
    assert harness.post(path(ref), as_="member", json={"step": 1, "metrics": {"loss": 2.5}}).status_code == 204
    made: list[threading.Thread] = []

    def noted(step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: made.append(threading.current_thread()) or step(*given)

    monkeypatch.setattr(services, "downsample_curves", noted(services.downsample_curves))
    monkeypatch.setattr(native, "to_timestamp", noted(native.to_timestamp))
    assert curves(harness, ref) == {"loss": [(1, 2.5)]}
    assert len(made) == 2
    assert threading.current_thread() not in made


def test_a_report_that_is_sent_again_changes_nothing(harness: MonitoringHarness) -> None:
    ref = harness.submit()
    sent = {"step": 1, "at": "2026-01-15T10:30:00.500Z", "metrics": {"loss": 2.5}}
    for _ in range(2):
        assert harness.post(path(ref), as_="member", json=sent).status_code == 204
    assert curves(harness, ref) == {"loss": [(1, 2.5)]}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"metrics": {}}, "metrics"),
        ({"step": 1}, "metrics"),
        ({"step": -1, "metrics": {"loss": 1}}, "step"),
        ({"step": 1.5, "metrics": {"loss": 1}}, "step"),
        ({"metrics": {"loss": "low"}}, "metrics"),
        ({"metrics": {"loss": 1}, "colour": "red"}, "colour"),
        ({"metrics": {"loss": 1}, "at": "today"}, "at"),
        ({"metrics": {"loss": 1}, "at": "2026-01-15T10:32:00Z"}, "at"),
        ({"metrics": {"x" * 81: 1}}, "metrics"),
        ({"metrics": {"%": 1}}, "metrics"),
        ({"metrics": {f"m{n}": 1 for n in range(65)}}, "metrics"),
        ([], ""),
        ([{"metrics": {"loss": 1}}] * 1001, ""),
    ],
)
def test_what_is_not_taken_is_named(harness: MonitoringHarness, body: Any, named: str) -> None:
    refused = harness.post(path(harness.submit()), as_="member", json=body)
    assert refused.status_code == 400, refused.text
    assert named in refused.json()["error"]["message"]


def test_a_number_that_is_too_large_is_not_taken(harness: MonitoringHarness) -> None:
    refused = harness.post(path(harness.submit()), as_="member", content='{"metrics":{"loss":1e999}}')
    assert refused.status_code == 400, refused.text


@pytest.mark.parametrize(
    ("who", "status"), [("viewer", 403), ("member", 204), ("manager", 204), ("outsider", 404), ("admin", 204)]
)
def test_whoever_may_edit_a_workload_may_report_on_it(harness: MonitoringHarness, who: str, status: int) -> None:
    ref = harness.submit("member")
    assert harness.post(path(ref), as_=who, json={"metrics": {"loss": 1}}).status_code == status
    assert harness.post(path(ref), json={"metrics": {"loss": 1}}).status_code == 401


class TestTheTokenOfAPod:
    def test_it_reports_on_its_own_workload_under_either_name(self, harness: MonitoringHarness) -> None:
        ref = harness.submit()
        harness.start(ref)
        mine = token(harness, harness.pods(ref)[0].uid)
        for name, step in ((ref, 1), (harness.inside(ref).uid, 2)):
            sent = {"step": step, "metrics": {"loss": 1.5}}
            assert harness.post(path(name), bearer=mine, json=sent).status_code == 204
        assert curves(harness, ref) == {"loss": [(1, 1.5), (2, 1.5)]}

    def test_of_what_all_ranks_report_of_a_step_one_counts(self, harness: MonitoringHarness) -> None:
        ref = harness.submit(replica=2)
        harness.start(ref, {"node-001": ()}, {"node-002": ()})
        for rank, pod in enumerate(harness.pods(ref)):
            sent = {"step": 1, "metrics": {"loss": 1.0 + rank}}
            assert harness.post(path(ref), bearer=token(harness, pod.uid), json=sent).status_code == 204
            harness.clock.advance(seconds=1)
        assert curves(harness, ref) == {"loss": [(1, 1.0)]}

    def test_of_what_all_processes_of_a_pod_report_of_a_step_one_counts(self, harness: MonitoringHarness) -> None:
        ref = harness.submit()
        harness.start(ref)
        sent = [{"step": 1, "rank": rank, "metrics": {"loss": 1.0 + rank}} for rank in range(3)]
        assert harness.post(path(ref), bearer=token(harness, harness.pods(ref)[0].uid), json=sent).status_code == 204
        assert curves(harness, ref) == {"loss": [(1, 1.0)]}

    def test_it_is_good_for_nothing_else(self, harness: MonitoringHarness) -> None:
        ref, other = harness.submit(), harness.submit()
        harness.start(ref)
        mine = token(harness, harness.pods(ref)[0].uid)
        assert harness.post(path(other), bearer=mine, json={"metrics": {"loss": 1}}).status_code == 404
        for method, where in (
            ("GET", path(ref)),
            ("GET", f"{MANAGEMENT_PATH}/{ref}"),
            ("GET", MANAGEMENT_PATH),
            ("POST", f"{MANAGEMENT_PATH}/{ref}/stop"),
            ("DELETE", f"{MANAGEMENT_PATH}/{ref}"),
            ("GET", "/api/workloads"),
            ("GET", f"{V1}/events"),
            ("GET", f"{V1}/whoami"),
            ("GET", f"{V1}/users"),
        ):
            refused = harness.run(harness.ask(method, where, bearer=mine))
            assert refused.status_code in {403, 404}, f"{method} {where}: {refused.status_code} {refused.text}"

    def test_it_ends_a_moment_after_its_pod(self, harness: MonitoringHarness) -> None:
        ref = harness.submit()
        harness.start(ref)
        mine = token(harness, harness.pods(ref)[0].uid)
        harness.end(ref)
        harness.clock.advance(seconds=TOKEN_GRACE_MS / 1000)
        assert harness.post(path(ref), bearer=mine, json={"metrics": {"loss": 1}}).status_code == 204
        harness.clock.advance(seconds=1)
        late = harness.post(path(ref), bearer=mine, json={"metrics": {"loss": 1}})
        assert (late.status_code, "expired" in late.text) == (401, True)

    def test_one_that_was_made_up_is_refused(self, harness: MonitoringHarness) -> None:
        ref = harness.submit()
        harness.start(ref)
        uid = harness.pods(ref)[0].uid
        for made_up in (
            f"{TOKEN_PREFIX}{uid}.{'0' * 64}",
            f"{TOKEN_PREFIX}{uid}",
            TOKEN_PREFIX,
            token(harness, "another"),
        ):
            refused = harness.post(path(ref), bearer=made_up, json={"metrics": {"loss": 1}})
            assert refused.status_code == 401, made_up
