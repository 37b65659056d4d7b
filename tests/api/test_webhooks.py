"""Webhooks over the API: whose they are, where they may go, and what is shown of what was sent."""

import base64

import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import STARTED, V1, Harness, problem

from stoker.domain.webhooks.model import DeliveryState
from stoker.store.webhooks import outbox
from stoker.store.webhooks.outbox import DeliveryResult

HOOKS = f"{V1}/webhooks"
URL = "https://8.8.8.8/hook?token=abc"


def test_a_webhook_is_made_with_a_secret_that_is_shown_once(any_harness: Harness) -> None:
    answer = any_harness.post(HOOKS, as_="admin", json={"url": URL, "events": ["workload.failed", "node.faulty"]})
    assert (answer.status_code, answer.headers["Cache-Control"]) == (201, "no-store")
    hook, secret = answer.json()["webhook"], answer.json()["secret"]
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert hook == {
        "id": hook["id"],
        "url": URL,
        "description": "",
        "workspace": None,
        "events": ["node.faulty", "workload.failed"],
        "enabled": True,
        "disabledBecause": "",
        "createdAt": STARTED,
        "updatedAt": STARTED,
    }
    assert any_harness.get(HOOKS, as_="admin").json() == {"items": [hook], "total": 1, "next": None}
    assert any_harness.get(f"{HOOKS}/{hook['id']}", as_="admin").json() == hook
    assert [each["detail"] for each in any_harness.audit(action="webhook.create")] == ["to 8.8.8.8"]
    any_harness.patch(f"{HOOKS}/{hook['id']}", as_="admin", json={"url": f"{URL}d"})
    log = any_harness.get(f"{V1}/audit", as_="admin").text
    assert secret not in log
    assert "token=" not in log


def test_the_same_request_sent_twice_makes_one_webhook_with_one_secret(harness: Harness) -> None:
    twice = [harness.post(HOOKS, as_="admin", json={"url": URL}, headers={"Idempotency-Key": "1"}) for _ in range(2)]
    assert twice[0].json() == twice[1].json()
    assert harness.get(HOOKS, as_="admin").json()["total"] == 1


def test_a_secret_of_ones_own_is_taken(harness: Harness) -> None:
    secret = "whsec_" + base64.b64encode(b"x" * 24).decode()
    assert harness.post(HOOKS, as_="admin", json={"url": URL, "secret": secret}).json()["secret"] == secret
    refused = harness.post(HOOKS, as_="admin", json={"url": URL, "secret": "whsec_short"})
    message = "secret: use whsec_ and 24 to 64 random bytes in base64, or leave it out."
    assert (refused.status_code, refused.json()) == (400, problem(refused, "bad_request", message, field="secret"))


def test_a_managers_webhook_is_of_the_workspace_and_nobody_elses_to_see(harness: Harness) -> None:
    harness.add_staff()
    hook = harness.post(HOOKS, as_="manager", json={"url": URL, "workspace": "vision"}).json()["webhook"]
    harness.post(HOOKS, as_="admin", json={"url": URL})
    seen = {who: harness.get(HOOKS, as_=who).json()["total"] for who in ("admin", "manager", "member", "outsider")}
    assert seen == {"admin": 2, "manager": 1, "member": 0, "outsider": 0}
    assert harness.get(f"{HOOKS}/{hook['id']}", as_="outsider").status_code == 404
    everywhere = harness.post(HOOKS, as_="manager", json={"url": URL})
    assert (everywhere.status_code, everywhere.json()["error"]["hint"]) == (403, "Name a workspace that you manage.")
    of_nodes = harness.post(HOOKS, as_="manager", json={"url": URL, "workspace": "vision", "events": ["node.faulty"]})
    message = "events: node.faulty is not an event of a workspace. Only webhooks of the whole installation get it."
    assert (of_nodes.status_code, of_nodes.json()["error"]["message"]) == (400, message)
    harness.delete(f"{V1}/workspaces/vision", as_="admin")
    assert harness.get(f"{HOOKS}/{hook['id']}", as_="admin").status_code == 404


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1/", "127.0.0.1 is not on the public internet."),
        ("https://localhost/", "is not on the public internet."),
        ("https://169.254.169.254/latest/meta-data", "is not on the public internet."),
        ("https://[::ffff:10.0.0.1]/", "is not on the public internet."),
        ("https://0x7f000001/", "is not on the public internet."),
        ("http://8.8.8.8/", "use https://; plain HTTP needs the server's setting webhook_private_targets."),
        ("gopher://8.8.8.8/", "this is not a valid URL."),
    ],
)
def test_a_target_inside_needs_a_setting(shared_harness: Harness, url: str, words: str) -> None:
    answer = shared_harness.post(HOOKS, as_="admin", json={"url": url})
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "url"
    assert words in answer.json()["error"]["message"]
    made = shared_harness.post(HOOKS, as_="admin", json={"url": URL}).json()["webhook"]["id"]
    assert shared_harness.patch(f"{HOOKS}/{made}", as_="admin", json={"url": url}).status_code == 400


def test_with_the_setting_a_target_inside_is_taken(open_harness: OpenHarness) -> None:
    harness = open_harness(webhook_private_targets=True)
    for url in ("http://127.0.0.1:9/", "http://localhost/", "https://10.0.0.1/"):
        assert harness.post(HOOKS, as_="admin", json={"url": url}).status_code == 201


def test_what_is_disabled_forgets_what_was_on_its_way(any_harness: Harness) -> None:
    hook = any_harness.post(HOOKS, as_="admin", json={"url": URL}).json()["webhook"]["id"]
    sent = any_harness.post(f"{HOOKS}/{hook}/test", as_="admin")
    assert sent.status_code == 202
    pending = {
        "number": 1,
        "eventId": sent.json()["eventId"],
        "event": "webhook.test",
        "at": STARTED,
        "state": "pending",
        "tries": 0,
        "nextTryAt": STARTED,
        "triedAt": None,
        "status": None,
        "error": "",
    }
    assert sent.json() == pending
    assert any_harness.get(f"{HOOKS}/{hook}/deliveries", as_="admin").json()["items"] == [pending]
    off = any_harness.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": False}).json()
    assert (off["enabled"], off["disabledBecause"]) == (False, "admin disabled it.")
    given_up = {**pending, "state": "given-up", "nextTryAt": None, "error": "The webhook was disabled."}
    assert any_harness.get(f"{HOOKS}/{hook}/deliveries", as_="admin").json()["items"] == [given_up]
    for path in ("test", "deliveries/1/retry"):
        refused = any_harness.post(f"{HOOKS}/{hook}/{path}", as_="admin")
        message = "The webhook is disabled. Enable it first."
        assert (refused.status_code, refused.json()) == (409, problem(refused, "conflict", message))
    assert any_harness.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": True}).json()["disabledBecause"] == ""
    again = any_harness.post(f"{HOOKS}/{hook}/deliveries/1/retry", as_="admin")
    assert (again.status_code, again.json()["state"], again.json()["eventId"]) == (202, "pending", pending["eventId"])
    assert any_harness.post(f"{HOOKS}/{hook}/deliveries/7/retry", as_="admin").status_code == 404


def test_deliveries_are_listed_by_what_came_of_them(any_harness: Harness) -> None:
    hook, other = (any_harness.post(HOOKS, as_="admin", json={"url": URL}).json()["webhook"]["id"] for _ in range(2))
    for each in (hook, hook, other, hook, hook):
        any_harness.post(f"{HOOKS}/{each}/test", as_="admin")
    done = DeliveryResult(DeliveryState.DELIVERED, 1, None, 0, 204, "")
    any_harness.run(any_harness.installation.store.write(lambda tx: outbox.record_result(tx, 2, done)))
    any_harness.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": False})
    any_harness.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": True})
    any_harness.post(f"{HOOKS}/{hook}/deliveries/4/retry", as_="admin")

    def numbers(asked: str = "") -> tuple[list[int], int]:
        page = any_harness.get(f"{HOOKS}/{hook}/deliveries?{asked}", as_="admin").json()
        return [each["number"] for each in page["items"]], page["total"]

    assert numbers() == ([5, 4, 2, 1], 4)
    assert numbers("state=delivered") == ([2], 1)
    assert numbers("state=given-up") == ([5, 1], 2)
    assert numbers("state=given-up&limit=1&offset=1") == ([1], 2)
    assert numbers("state=pending") == ([4], 1)
    refused = any_harness.get(f"{HOOKS}/{hook}/deliveries?state=failed", as_="admin")
    message = 'state: "failed" is not allowed. Use pending, delivered or given-up.'
    assert (refused.status_code, refused.json()) == (400, problem(refused, "bad_request", message, field="state"))
    assert "given-up" in refused.json()["error"]["message"]


def test_those_in_one_state_are_found_by_an_index(harness: Harness) -> None:
    asked = "SELECT number FROM webhook_delivery WHERE webhook_id = 'x' AND state = 'given-up' ORDER BY number DESC"
    plan = harness.run(
        harness.installation.store.read(lambda tx: [row[3] for row in tx.fetch_all(f"EXPLAIN QUERY PLAN {asked}")])
    )
    assert plan == ["SEARCH webhook_delivery USING COVERING INDEX webhook_delivery_by_state (webhook_id=? AND state=?)"]


def test_a_stop_is_on_its_way_when_it_is_answered(any_harness: Harness) -> None:
    any_harness.add_workspace("vision")
    hook = any_harness.post(HOOKS, as_="admin", json={"url": URL, "workspace": "vision"}).json()["webhook"]["id"]
    any_harness.post(f"/api/custom/workloads/{any_harness.add_workload('vision')}/stop", as_="admin")
    [told] = any_harness.get(f"{HOOKS}/{hook}/deliveries", as_="admin").json()["items"]
    assert (told["event"], told["state"]) == ("workload.stopped", "pending")


def test_there_are_only_so_many_webhooks_of_a_workspace(harness: Harness) -> None:
    harness.add_workspace("vision")
    made = [harness.post(HOOKS, as_="admin", json={"url": URL, "workspace": "vision"}) for _ in range(51)]
    assert [answer.status_code for answer in made] == [*[201] * 50, 409]
    assert harness.post(HOOKS, as_="admin", json={"url": URL}).status_code == 201
