"""Webhooks over the API: whose they are, where they may go, and what is shown of what was sent."""

import base64

import pytest
from tests.api.conftest import OpenLab
from tests.api.lab import STARTED, V1, Lab, problem

from stoker.domain.webhooks import DeliveryState
from stoker.store import outbox
from stoker.store.outbox import Outcome

HOOKS = f"{V1}/webhooks"
URL = "https://8.8.8.8/hook?token=abc"


def test_a_webhook_is_made_with_a_secret_that_is_shown_once(any_lab: Lab) -> None:
    answer = any_lab.post(HOOKS, as_="admin", json={"url": URL, "events": ["workload.failed", "node.faulty"]})
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
    assert any_lab.get(HOOKS, as_="admin").json() == {"items": [hook], "total": 1, "next": None}
    assert any_lab.get(f"{HOOKS}/{hook['id']}", as_="admin").json() == hook
    assert [each["detail"] for each in any_lab.audit(action="webhook.create")] == ["to 8.8.8.8"]
    any_lab.patch(f"{HOOKS}/{hook['id']}", as_="admin", json={"url": f"{URL}d"})
    log = any_lab.get(f"{V1}/audit", as_="admin").text
    assert secret not in log
    assert "token=" not in log


def test_the_same_request_sent_twice_makes_one_webhook_with_one_secret(lab: Lab) -> None:
    twice = [lab.post(HOOKS, as_="admin", json={"url": URL}, headers={"Idempotency-Key": "1"}) for _ in range(2)]
    assert twice[0].json() == twice[1].json()
    assert lab.get(HOOKS, as_="admin").json()["total"] == 1


def test_a_secret_of_ones_own_is_taken(lab: Lab) -> None:
    secret = "whsec_" + base64.b64encode(b"x" * 24).decode()
    assert lab.post(HOOKS, as_="admin", json={"url": URL, "secret": secret}).json()["secret"] == secret
    refused = lab.post(HOOKS, as_="admin", json={"url": URL, "secret": "whsec_short"})
    message = "secret: use whsec_ and 24 to 64 random bytes in base64, or leave it out."
    assert (refused.status_code, refused.json()) == (400, problem(refused, "bad_request", message, field="secret"))


def test_a_managers_webhook_is_of_the_workspace_and_nobody_elses_to_see(lab: Lab) -> None:
    lab.add_staff()
    hook = lab.post(HOOKS, as_="manager", json={"url": URL, "workspace": "vision"}).json()["webhook"]
    lab.post(HOOKS, as_="admin", json={"url": URL})
    seen = {who: lab.get(HOOKS, as_=who).json()["total"] for who in ("admin", "manager", "member", "outsider")}
    assert seen == {"admin": 2, "manager": 1, "member": 0, "outsider": 0}
    assert lab.get(f"{HOOKS}/{hook['id']}", as_="outsider").status_code == 404
    everywhere = lab.post(HOOKS, as_="manager", json={"url": URL})
    assert (everywhere.status_code, everywhere.json()["error"]["hint"]) == (403, "Name a workspace that you manage.")
    of_nodes = lab.post(HOOKS, as_="manager", json={"url": URL, "workspace": "vision", "events": ["node.faulty"]})
    message = "events: node.faulty is not of a workspace. Only webhooks of the whole installation hear it."
    assert (of_nodes.status_code, of_nodes.json()["error"]["message"]) == (400, message)
    lab.delete(f"{V1}/workspaces/vision", as_="admin")
    assert lab.get(f"{HOOKS}/{hook['id']}", as_="admin").status_code == 404


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1/", "127.0.0.1 is not on the public internet."),
        ("https://localhost/", "is not on the public internet."),
        ("https://169.254.169.254/latest/meta-data", "is not on the public internet."),
        ("https://[::ffff:10.0.0.1]/", "is not on the public internet."),
        ("https://0x7f000001/", "is not on the public internet."),
        ("http://8.8.8.8/", "use https://; plain HTTP needs the server's setting webhook_private_targets."),
        ("gopher://8.8.8.8/", "it is not an address to send to."),
    ],
)
def test_a_target_inside_needs_a_setting(shared_lab: Lab, url: str, words: str) -> None:
    answer = shared_lab.post(HOOKS, as_="admin", json={"url": url})
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "url"
    assert words in answer.json()["error"]["message"]
    made = shared_lab.post(HOOKS, as_="admin", json={"url": URL}).json()["webhook"]["id"]
    assert shared_lab.patch(f"{HOOKS}/{made}", as_="admin", json={"url": url}).status_code == 400


def test_with_the_setting_a_target_inside_is_taken(open_lab: OpenLab) -> None:
    lab = open_lab(webhook_private_targets=True)
    for url in ("http://127.0.0.1:9/", "http://localhost/", "https://10.0.0.1/"):
        assert lab.post(HOOKS, as_="admin", json={"url": url}).status_code == 201


def test_what_is_disabled_forgets_what_was_on_its_way(any_lab: Lab) -> None:
    hook = any_lab.post(HOOKS, as_="admin", json={"url": URL}).json()["webhook"]["id"]
    sent = any_lab.post(f"{HOOKS}/{hook}/test", as_="admin")
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
    assert any_lab.get(f"{HOOKS}/{hook}/deliveries", as_="admin").json()["items"] == [pending]
    off = any_lab.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": False}).json()
    assert (off["enabled"], off["disabledBecause"]) == (False, "admin disabled it.")
    given_up = {**pending, "state": "given-up", "nextTryAt": None, "error": "The webhook was disabled."}
    assert any_lab.get(f"{HOOKS}/{hook}/deliveries", as_="admin").json()["items"] == [given_up]
    for path in ("test", "deliveries/1/retry"):
        refused = any_lab.post(f"{HOOKS}/{hook}/{path}", as_="admin")
        message = "The webhook is disabled. Enable it first."
        assert (refused.status_code, refused.json()) == (409, problem(refused, "state_forbids", message))
    assert any_lab.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": True}).json()["disabledBecause"] == ""
    again = any_lab.post(f"{HOOKS}/{hook}/deliveries/1/retry", as_="admin")
    assert (again.status_code, again.json()["state"], again.json()["eventId"]) == (202, "pending", pending["eventId"])
    assert any_lab.post(f"{HOOKS}/{hook}/deliveries/7/retry", as_="admin").status_code == 404


def test_deliveries_are_listed_by_what_came_of_them(any_lab: Lab) -> None:
    hook, other = (any_lab.post(HOOKS, as_="admin", json={"url": URL}).json()["webhook"]["id"] for _ in range(2))
    for each in (hook, hook, other, hook, hook):
        any_lab.post(f"{HOOKS}/{each}/test", as_="admin")
    done = Outcome(DeliveryState.DELIVERED, 1, None, 0, 204, "")
    any_lab.run(any_lab.installation.store.write(lambda tx: outbox.record(tx, 2, done)))
    any_lab.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": False})
    any_lab.patch(f"{HOOKS}/{hook}", as_="admin", json={"enabled": True})
    any_lab.post(f"{HOOKS}/{hook}/deliveries/4/retry", as_="admin")

    def numbers(asked: str = "") -> tuple[list[int], int]:
        page = any_lab.get(f"{HOOKS}/{hook}/deliveries?{asked}", as_="admin").json()
        return [each["number"] for each in page["items"]], page["total"]

    assert numbers() == ([5, 4, 2, 1], 4)
    assert numbers("state=delivered") == ([2], 1)
    assert numbers("state=given-up") == ([5, 1], 2)
    assert numbers("state=given-up&limit=1&offset=1") == ([1], 2)
    assert numbers("state=pending") == ([4], 1)
    refused = any_lab.get(f"{HOOKS}/{hook}/deliveries?state=failed", as_="admin")
    message = 'state: "failed" is not allowed. Use pending, delivered or given-up.'
    assert (refused.status_code, refused.json()) == (400, problem(refused, "bad_request", message, field="state"))
    assert "given-up" in refused.json()["error"]["message"]


def test_those_in_one_state_are_found_by_an_index(lab: Lab) -> None:
    asked = "SELECT number FROM webhook_delivery WHERE webhook_id = 'x' AND state = 'given-up' ORDER BY number DESC"
    plan = lab.run(lab.installation.store.read(lambda tx: [row[3] for row in tx.all(f"EXPLAIN QUERY PLAN {asked}")]))
    assert plan == ["SEARCH webhook_delivery USING COVERING INDEX webhook_delivery_state (webhook_id=? AND state=?)"]


def test_a_stop_is_on_its_way_when_it_is_answered(any_lab: Lab) -> None:
    any_lab.add_workspace("vision")
    hook = any_lab.post(HOOKS, as_="admin", json={"url": URL, "workspace": "vision"}).json()["webhook"]["id"]
    any_lab.post(f"/api/custom/workloads/{any_lab.add_workload('vision')}/stop", as_="admin")
    [told] = any_lab.get(f"{HOOKS}/{hook}/deliveries", as_="admin").json()["items"]
    assert (told["event"], told["state"]) == ("workload.stopped", "pending")


def test_there_are_only_so_many_webhooks_of_a_workspace(lab: Lab) -> None:
    lab.add_workspace("vision")
    made = [lab.post(HOOKS, as_="admin", json={"url": URL, "workspace": "vision"}) for _ in range(51)]
    assert [answer.status_code for answer in made] == [*[201] * 50, 409]
    assert lab.post(HOOKS, as_="admin", json={"url": URL}).status_code == 201
