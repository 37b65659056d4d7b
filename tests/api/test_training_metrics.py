"""Training metrics in the native family: who may report, what is taken, and what is read back."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.api.lab import SAFE, START, V1, Lab
from tests.contract.lens.lab import LensLab

from stoker.api.native import training as native
from stoker.domain.report_token import GRACE_MS, PREFIX, report_token
from stoker.server.build import SIGNING_KEY
from stoker.services import training as services
from stoker.store import secrets

STAFF = ("viewer", "member", "manager", "outsider", "admin")


@pytest.fixture
def lab(tmp_path: Any) -> Iterator[LensLab]:
    with LensLab(tmp_path / "data") as opened:
        opened.add_staff()
        yield opened


def path(ref: str) -> str:
    return f"{V1}/workloads/{ref}/training-metrics"


def token(lab: Lab, pod_uid: str) -> str:
    """What the engine gives to a pod."""
    key = lab.run(lab.installation.store.write(lambda tx: secrets.find_or_add(tx, SIGNING_KEY, "", 0)))
    return report_token(key, pod_uid)


def curves(lab: Lab, ref: str, query: str = "") -> dict[str, list[tuple[int | None, float]]]:
    answer = lab.get(f"{path(ref)}{query}", as_="viewer")
    assert answer.status_code == 200, answer.text
    return {each["metric"]: [(p["step"], p["value"]) for p in each["points"]] for each in answer.json()["items"]}


def test_one_report_and_a_list_of_them_are_read_back_by_metric(lab: LensLab) -> None:
    ref = lab.submit()
    one = lab.post(path(ref), as_="member", json={"step": 1, "metrics": {"loss": 2.5, "train/acc": 0.5}})
    assert (one.status_code, one.content) == (204, b"")
    lab.clock.advance(seconds=1)
    many = [{"step": 2, "metrics": {"loss": 2.25}}, {"metrics": {"Tokens/s": 10}, "at": "2026-01-15T10:00:00Z"}]
    assert lab.post(path(ref), as_="member", json=many).status_code == 204
    assert curves(lab, ref) == {
        "accuracy": [(1, 0.5)],
        "loss": [(1, 2.5), (2, 2.25)],
        "tokens_per_second": [(None, 10.0)],
    }
    assert curves(lab, ref, "?end=2026-01-15T10:15:00Z") == {"tokens_per_second": [(None, 10.0)]}
    found = lab.run(lab.installation.services.training.points(lab.inside(ref).uid, START, START + 500, "loss"))
    assert found.value.tolist() == [2.5]


def test_a_long_curve_is_thinned_and_says_so(lab: LensLab) -> None:
    ref = lab.submit()
    for first in range(0, 3000, 1000):
        sent = [{"step": n, "metrics": {"loss": float(n)}} for n in range(first, first + 1000)]
        assert lab.post(path(ref), as_="member", json=sent).status_code == 204
        lab.clock.advance(seconds=1)
    [shown] = lab.get(f"{path(ref)}?limit=5", as_="viewer").json()["items"]
    assert shown["count"] == 3000
    assert [point["step"] for point in shown["points"]] == [0, 750, 1500, 2249, 2999]


def test_curves_are_made_beside_the_event_loop(lab: LensLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code may make up a metric for every step; other requests do not wait for them."""
    ref = lab.submit()
    assert lab.post(path(ref), as_="member", json={"step": 1, "metrics": {"loss": 2.5}}).status_code == 204
    made: list[threading.Thread] = []

    def noted(step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: made.append(threading.current_thread()) or step(*given)

    monkeypatch.setattr(services, "curves", noted(services.curves))
    monkeypatch.setattr(native, "rfc3339", noted(native.rfc3339))
    assert curves(lab, ref) == {"loss": [(1, 2.5)]}
    assert len(made) == 2
    assert threading.current_thread() not in made


def test_a_report_that_is_sent_again_changes_nothing(lab: LensLab) -> None:
    ref = lab.submit()
    sent = {"step": 1, "at": "2026-01-15T10:30:00.500Z", "metrics": {"loss": 2.5}}
    for _ in range(2):
        assert lab.post(path(ref), as_="member", json=sent).status_code == 204
    assert curves(lab, ref) == {"loss": [(1, 2.5)]}


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
def test_what_is_not_taken_is_named(lab: LensLab, body: Any, named: str) -> None:
    refused = lab.post(path(lab.submit()), as_="member", json=body)
    assert refused.status_code == 400, refused.text
    assert named in refused.json()["error"]["message"]


def test_a_number_that_is_too_large_is_not_taken(lab: LensLab) -> None:
    refused = lab.post(path(lab.submit()), as_="member", content='{"metrics":{"loss":1e999}}')
    assert refused.status_code == 400, refused.text


@pytest.mark.parametrize(
    ("who", "status"), [("viewer", 403), ("member", 204), ("manager", 204), ("outsider", 404), ("admin", 204)]
)
def test_whoever_may_edit_a_workload_may_report_on_it(lab: LensLab, who: str, status: int) -> None:
    ref = lab.submit("member")
    assert lab.post(path(ref), as_=who, json={"metrics": {"loss": 1}}).status_code == status
    assert lab.post(path(ref), json={"metrics": {"loss": 1}}).status_code == 401


class TestTheTokenOfAPod:
    def test_it_reports_on_its_own_workload_under_either_name(self, lab: LensLab) -> None:
        ref = lab.submit()
        lab.start(ref)
        mine = token(lab, lab.pods(ref)[0].uid)
        for name, step in ((ref, 1), (lab.inside(ref).uid, 2)):
            sent = {"step": step, "metrics": {"loss": 1.5}}
            assert lab.post(path(name), bearer=mine, json=sent).status_code == 204
        assert curves(lab, ref) == {"loss": [(1, 1.5), (2, 1.5)]}

    def test_of_what_all_ranks_report_of_a_step_one_counts(self, lab: LensLab) -> None:
        ref = lab.submit(replica=2)
        lab.start(ref, {"node-001": ()}, {"node-002": ()})
        for rank, pod in enumerate(lab.pods(ref)):
            sent = {"step": 1, "metrics": {"loss": 1.0 + rank}}
            assert lab.post(path(ref), bearer=token(lab, pod.uid), json=sent).status_code == 204
            lab.clock.advance(seconds=1)
        assert curves(lab, ref) == {"loss": [(1, 1.0)]}

    def test_of_what_all_processes_of_a_pod_report_of_a_step_one_counts(self, lab: LensLab) -> None:
        ref = lab.submit()
        lab.start(ref)
        sent = [{"step": 1, "rank": rank, "metrics": {"loss": 1.0 + rank}} for rank in range(3)]
        assert lab.post(path(ref), bearer=token(lab, lab.pods(ref)[0].uid), json=sent).status_code == 204
        assert curves(lab, ref) == {"loss": [(1, 1.0)]}

    def test_it_is_good_for_nothing_else(self, lab: LensLab) -> None:
        ref, other = lab.submit(), lab.submit()
        lab.start(ref)
        mine = token(lab, lab.pods(ref)[0].uid)
        assert lab.post(path(other), bearer=mine, json={"metrics": {"loss": 1}}).status_code == 404
        for method, where in (
            ("GET", path(ref)),
            ("GET", f"{SAFE}/{ref}"),
            ("GET", SAFE),
            ("POST", f"{SAFE}/{ref}/stop"),
            ("DELETE", f"{SAFE}/{ref}"),
            ("GET", "/api/workloads"),
            ("GET", f"{V1}/events"),
            ("GET", f"{V1}/whoami"),
            ("GET", f"{V1}/users"),
        ):
            refused = lab.run(lab.ask(method, where, bearer=mine))
            assert refused.status_code in {403, 404}, f"{method} {where}: {refused.status_code} {refused.text}"

    def test_it_ends_a_moment_after_its_pod(self, lab: LensLab) -> None:
        ref = lab.submit()
        lab.start(ref)
        mine = token(lab, lab.pods(ref)[0].uid)
        lab.end(ref)
        lab.clock.advance(seconds=GRACE_MS / 1000)
        assert lab.post(path(ref), bearer=mine, json={"metrics": {"loss": 1}}).status_code == 204
        lab.clock.advance(seconds=1)
        late = lab.post(path(ref), bearer=mine, json={"metrics": {"loss": 1}})
        assert (late.status_code, "expired" in late.text) == (401, True)

    def test_one_that_was_made_up_is_refused(self, lab: LensLab) -> None:
        ref = lab.submit()
        lab.start(ref)
        uid = lab.pods(ref)[0].uid
        for made_up in (f"{PREFIX}{uid}.{'0' * 64}", f"{PREFIX}{uid}", PREFIX, token(lab, "another")):
            refused = lab.post(path(ref), bearer=made_up, json={"metrics": {"loss": 1}})
            assert refused.status_code == 401, made_up
