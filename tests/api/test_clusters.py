"""Clusters over the API: added, changed, checked and removed by admins, with credentials that nobody sees."""

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH, STARTED, V1, Harness, problem
from tests.certificates import certificate_of

from stoker.services.fleet.credential_cipher import KEY_FILE
from stoker.store.cluster import clusters

CLUSTERS = f"{V1}/clusters"
URL = "unix:///nowhere/docker.sock"
IMAGE = "ubuntu:24.04"


def add(harness: Harness, name: str = "lab", **docker: Any) -> dict[str, Any]:
    made = harness.post(CLUSTERS, as_="admin", json={"name": name, "docker": {"url": URL, **docker}})
    assert made.status_code == 201, made.text
    return made.json()


def stored_credential(harness: Harness, cluster: str) -> str:
    found = harness.get(f"{CLUSTERS}/{cluster}", as_="admin").json()["id"]
    return harness.run(harness.installation.store.read(lambda tx: clusters.read_credential(tx, found)))


def cut_off(harness: Harness, cluster: str, message: str = "No route to host.") -> None:
    """Its engine cannot be reached, as its controller says."""
    found = harness.get(f"{CLUSTERS}/{cluster}", as_="admin").json()["id"]
    at = harness.clock.now()
    harness.run(harness.installation.store.write(lambda tx: clusters.set_unreachable(tx, found, at, message)))


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    made = certificate_of("client", tmp_path)
    return {"ca": made.cert.read_text(), "certificate": made.cert.read_text(), "key": made.key.read_text()}


def test_a_docker_host_is_added_with_its_settings(any_harness: Harness) -> None:
    made = add(any_harness, gpus=8, gpuModel="H100", defaultImage=IMAGE, shm="2Gi", allowedMounts=["/data"])
    assert made == {
        "id": made["id"],
        "name": "lab",
        "engine": "docker",
        "description": "",
        "simulated": False,
        "reachable": True,
        "unreachableSince": None,
        "unreachableMessage": "",
        "nodes": 0,
        "gpus": 0,
        "hasCredential": False,
        "docker": {
            "url": URL,
            "nodeName": "",
            "gpus": 8,
            "gpuModel": "H100",
            "gpuVendor": "nvidia",
            "gpuMemory": "0",
            "allowedMounts": ["/data"],
            "network": "",
            "pullPolicy": "missing",
            "registryAuthFile": "",
            "defaultImage": IMAGE,
            "shm": "2Gi",
            "workingDir": "/work",
            "foreignStop": False,
        },
        "createdAt": STARTED,
        "updatedAt": STARTED,
    }
    assert any_harness.get(f"{CLUSTERS}/lab", as_="admin").json() == made
    listed = any_harness.get(CLUSTERS, as_="admin").json()["items"]
    assert [(each["name"], each["engine"]) for each in listed] == [("lab", "docker"), ("local", "local")]
    assert [(each["target"], each["detail"]) for each in any_harness.audit(action="cluster.create")] == [
        ("lab", "engine docker")
    ]


def test_settings_are_for_admins(harness: Harness) -> None:
    add(harness)
    user = harness.add_user()
    assert harness.get(f"{CLUSTERS}/lab", as_=user).json()["docker"] is None
    assert harness.get(f"{CLUSTERS}/local", as_="admin").json()["docker"] is None


@pytest.mark.parametrize(
    ("docker", "message"),
    [
        ({"url": "http://host"}, 'url: "http://host" is neither unix:///PATH nor tcp://HOST:PORT.'),
        ({"url": "tcp://"}, 'url: "tcp://" has no host.'),
        ({"url": "unix://docker.sock"}, "has no absolute path."),
        ({"url": "tcp://host:port"}, "is not an address"),
        ({"url": "tcp://me:secret@host"}, "url: it has a user or a password."),
        ({"gpus": -1}, "docker.gpus"),
        ({"gpuVendor": "acme"}, "docker.gpuVendor"),
        ({"shm": "much"}, "shm:"),
        ({"allowedMounts": ["data"]}, 'allowed_mounts: "data" is not an absolute path.'),
        ({"colour": "red"}, "docker.colour"),
        ({"tlsDir": "certs", "url": "tcp://host"}, "is not an absolute path on the server."),
        ({"tlsDir": "/certs"}, "tls: is for a daemon on TCP"),
    ],
)
def test_settings_that_cannot_work_are_refused(harness: Harness, docker: dict[str, Any], message: str) -> None:
    answer = harness.post(CLUSTERS, as_="admin", json={"name": "lab", "docker": {"url": URL, **docker}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert message in answer.json()["error"]["message"]
    assert "secret" not in answer.text
    assert harness.get(CLUSTERS, as_="admin").json()["total"] == 1


def test_a_name_is_taken_once(harness: Harness) -> None:
    add(harness)
    again = harness.post(CLUSTERS, as_="admin", json={"name": "lab", "docker": {"url": URL}})
    message = 'There is already a cluster "lab". Choose another name.'
    assert (again.status_code, again.json()) == (409, problem(again, "exists", message, field="name"))
    wrong = harness.post(CLUSTERS, as_="admin", json={"name": "My Lab", "docker": {"url": URL}})
    assert wrong.status_code == 400


def test_the_same_request_sent_twice_adds_one_cluster(harness: Harness) -> None:
    body = {"name": "lab", "docker": {"url": URL}}
    twice = [harness.post(CLUSTERS, as_="admin", json=body, headers={"Idempotency-Key": "1"}) for _ in range(2)]
    assert twice[0].json() == twice[1].json()
    assert twice[1].status_code == 201


def test_certificates_are_stored_encrypted_and_never_shown(
    any_harness: Harness, tls: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    made = add(any_harness, url="tcp://host:2376", tls=tls)
    assert made["hasCredential"]
    stored = stored_credential(any_harness, "lab")
    secret = tls["key"].splitlines()[1]
    log = any_harness.get(f"{V1}/audit", as_="admin").text
    shown = any_harness.get(f"{CLUSTERS}/lab", as_="admin").text
    assert stored
    assert [text for text in (stored, log, shown, caplog.text) if secret in text] == []
    key_file = Path(any_harness.settings.data_dir) / KEY_FILE
    assert key_file.stat().st_mode & 0o777 == 0o600
    any_harness.patch(f"{CLUSTERS}/lab", as_="admin", json={"docker": {"tls": tls}})
    assert stored_credential(any_harness, "lab") != stored
    [record] = any_harness.audit(action="cluster.update")
    assert record["detail"] == "credential"
    removed = any_harness.patch(f"{CLUSTERS}/lab", as_="admin", json={"docker": {"tls": None}})
    assert not removed.json()["hasCredential"]


def test_certificates_must_belong_together(harness: Harness, tls: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = certificate_of("other", tmp_path / "other")
    cases = {
        "tls.key: it does not belong to the certificate.": {**tls, "key": other.key.read_text()},
        "tls.key: it is not a private key in PEM format.": {**tls, "key": "secret words"},
        "tls.certificate: it is not a certificate in PEM format.": {**tls, "certificate": "x"},
        "tls.ca: it is not a certificate in PEM format.": {**tls, "ca": "x"},
    }
    for message, given in cases.items():
        body = {"name": "lab", "docker": {"url": "tcp://host", "tls": given}}
        answer = harness.post(CLUSTERS, as_="admin", json=body)
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)
        assert "secret words" not in answer.text
    on_a_socket = harness.post(CLUSTERS, as_="admin", json={"name": "lab", "docker": {"url": URL, "tls": tls}})
    assert on_a_socket.status_code == 400


def test_a_credential_by_reference_is_a_directory_of_the_server(harness: Harness) -> None:
    assert add(harness, url="tcp://host", tlsDir="/etc/stoker/lab")["hasCredential"]
    assert "/etc/stoker/lab/key.pem" in stored_credential(harness, "lab")
    assert not (Path(harness.settings.data_dir) / KEY_FILE).exists()


def test_a_change_keeps_what_it_does_not_name(harness: Harness) -> None:
    add(harness, gpus=8, defaultImage=IMAGE)
    harness.clock.advance(60)
    edited = harness.patch(
        f"{CLUSTERS}/lab", as_="admin", json={"description": "The lab.", "docker": {"gpuModel": "H100", "gpus": None}}
    ).json()
    assert edited["description"] == "The lab."
    assert edited["updatedAt"] > STARTED
    settings = edited["docker"]
    assert (settings["gpus"], settings["gpuModel"], settings["defaultImage"]) == (None, "H100", IMAGE)
    [record] = harness.audit(action="cluster.update")
    assert record["detail"] == "settings gpu_model, gpus, description"


def test_a_cluster_that_comes_with_the_server_is_not_changed_or_removed(harness: Harness) -> None:
    for answer in (
        harness.patch(f"{CLUSTERS}/local", as_="admin", json={"docker": {"gpus": 1}}),
        harness.delete(f"{CLUSTERS}/local", as_="admin"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
        assert 'Cluster "local" comes with the server' in answer.json()["error"]["message"]
    assert harness.patch(f"{CLUSTERS}/local", as_="admin", json={"description": "Mine."}).status_code == 200


def test_an_empty_cluster_is_removed(any_harness: Harness) -> None:
    add(any_harness)
    assert any_harness.delete(f"{CLUSTERS}/lab", as_="admin").status_code == 204
    assert any_harness.get(f"{CLUSTERS}/lab", as_="admin").status_code == 404
    assert any_harness.delete(f"{CLUSTERS}/lab", as_="admin").status_code == 404
    assert [each["target"] for each in any_harness.audit(action="cluster.delete", result="ok")] == ["lab"]
    add(any_harness)


def test_a_cluster_in_use_is_removed_only_by_releasing_it(any_harness: Harness) -> None:
    add(any_harness, defaultImage=IMAGE)
    any_harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "cluster": "lab"})
    refused = any_harness.delete(f"{CLUSTERS}/lab", as_="admin")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert refused.json()["error"]["message"] == 'Cluster "lab" has workspaces (1): vision.'
    assert "stoker workspace delete vision" in refused.json()["error"]["hint"]
    work = any_harness.add_workload("vision")
    refused = any_harness.delete(f"{CLUSTERS}/lab", as_="admin")
    message = f'Cluster "lab" has workloads that have not ended (1): {work}.'
    assert (refused.status_code, refused.json()["error"]["message"]) == (409, message)
    assert f"stoker stop {work}" in refused.json()["error"]["hint"]
    assert "stoker cluster remove lab --release" in refused.json()["error"]["hint"]
    assert any_harness.delete(f"{CLUSTERS}/lab?release=true", as_="admin").status_code == 204
    assert any_harness.get(f"{MANAGEMENT_PATH}/{work}", as_="admin").status_code == 404
    assert any_harness.get(f"{V1}/workspaces/vision", as_="admin").status_code == 404
    assert any_harness.audit(action="cluster.delete", result="ok")[0]["detail"] == "released 1 workload"


def test_workloads_have_the_image_that_they_name_or_that_of_the_cluster(harness: Harness) -> None:
    add(harness)
    harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "cluster": "lab"})
    body = {
        "displayName": "work",
        "workspaceId": "vision",
        "groupVersionKind": {"kind": "Job", "version": "v1"},
        "image": "none",
        "resource": {"cpu": "1", "memory": "1Gi", "replica": 1},
    }
    refused = harness.post(MANAGEMENT_PATH, as_="admin", json=body)
    assert refused.status_code == 400
    assert "runs images and has no default image" in refused.text
    named = harness.post(MANAGEMENT_PATH, as_="admin", json={**body, "image": "python:3.13"}).json()["workloadId"]
    harness.patch(f"{CLUSTERS}/lab", as_="admin", json={"docker": {"defaultImage": IMAGE}})
    without = harness.post(MANAGEMENT_PATH, as_="admin", json=body).json()["workloadId"]
    shown = [harness.get(f"{MANAGEMENT_PATH}/{each}", as_="admin").json()["image"] for each in (named, without)]
    assert shown == ["python:3.13", IMAGE]


class TestCheck:
    def findings(self, harness: Harness, cluster: str = "lab") -> dict[str, dict[str, str]]:
        answer = harness.post(f"{CLUSTERS}/{cluster}/check", as_="admin")
        assert answer.status_code == 200, answer.text
        found = {each["name"]: each for each in answer.json()["checks"]}
        assert answer.json()["ok"] == all(each["verdict"] != "broken" for each in found.values())
        return found

    def test_a_socket_that_is_not_there_is_named_with_what_to_do(self, harness: Harness) -> None:
        add(harness)
        found = self.findings(harness)
        assert found["socket"]["message"] == "There is no socket /nowhere/docker.sock."
        assert found["socket"]["advice"] == "Start Docker: systemctl start docker"
        assert found["daemon"]["verdict"] == "broken"
        assert found["daemon"]["advice"]

    def test_an_address_that_refuses_is_said(self, harness: Harness) -> None:
        add(harness, url="tcp://127.0.0.1:9")
        found = self.findings(harness)
        assert found["tls"]["verdict"] == "warning"
        assert "The Docker daemon at tcp://127.0.0.1:9 cannot be reached" in found["daemon"]["message"]

    def test_a_lost_key_is_an_error_of_that_cluster_alone(self, harness: Harness, tls: dict[str, str]) -> None:
        add(harness, url="tcp://127.0.0.1:9", tls=tls)
        add(harness, "other", url="tcp://127.0.0.1:9")
        (Path(harness.settings.data_dir) / KEY_FILE).unlink()
        found = self.findings(harness)
        assert 'The credential of cluster "lab" cannot be decrypted' in found["settings"]["message"]
        assert "stoker cluster edit lab --tls-dir DIR" in found["settings"]["advice"]
        assert "settings" not in self.findings(harness, "other")

    def test_what_the_controller_knows_is_added(self, harness: Harness) -> None:
        assert self.findings(harness, "local")["controller"]["verdict"] == "ok"
        cut_off(harness, "local")
        found = self.findings(harness, "local")["controller"]
        assert found["message"] == f"It cannot be reached since {STARTED}: No route to host."


class TestUnreachable:
    def test_the_list_says_since_when_and_why(self, harness: Harness) -> None:
        cut_off(harness, "local")
        [found] = harness.get(CLUSTERS, as_="admin").json()["items"]
        assert (found["reachable"], found["unreachableSince"]) == (False, STARTED)
        assert found["unreachableMessage"] == "No route to host."
        [cluster] = harness.get(f"{V1}/overview", as_="admin").json()["clusters"]
        assert (cluster["unreachableSince"], cluster["unreachableMessage"]) == (STARTED, "No route to host.")

    def test_the_server_stays_ready_and_says_so(self, harness: Harness) -> None:
        cut_off(harness, "local")
        ready = harness.get("/readyz")
        assert ready.status_code == 200
        [part] = [each for each in ready.json()["parts"] if each["name"] == "cluster"]
        assert part["ready"]
        assert part["message"].startswith(f'Cluster "local" cannot be reached since {STARTED}: nothing in it starts')
        assert "stoker cluster check local" in part["message"]

    def test_workloads_say_that_their_cluster_cannot_be_reached(self, any_harness: Harness) -> None:
        work = any_harness.add_workload("default")
        cut_off(any_harness, "local")
        words = f'Cluster "local" cannot be reached since {STARTED}, so it cannot start. No route to host.'
        assert any_harness.get(f"{MANAGEMENT_PATH}/{work}", as_="admin").json()["message"].startswith(words)
        listed = any_harness.get(MANAGEMENT_PATH, as_="admin").json()
        assert words in str(listed)
        explained = any_harness.get(f"{V1}/workloads/{work}/explain", as_="admin").json()
        assert explained["reason"]["code"] == "cluster_unreachable"

    def test_a_cluster_that_nobody_drives_says_that_first(self, harness: Harness) -> None:
        cut_off(harness, "local")
        harness.stop_driving()
        [part] = [each for each in harness.get("/readyz").json()["parts"] if each["name"] == "cluster"]
        assert part["message"].startswith('No server drives cluster "local"')
