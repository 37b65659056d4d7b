"""The management API on a real dockerd: what only a container host can show.

`test_management_contract` and `test_management_updates` run the behaviours that all engines share.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.types import Message
from tests.api.harness import V1
from tests.contract.management.examples import EXAMPLE
from tests.contract.management.harness import WAIT, encoded
from tests.contract.management.test_pod_access import answers, free_port
from tests.engines.docker.daemon import DockerDaemon
from tests.engines.docker.server import GPUS, HTTP_SERVER, NODE, OTHER_IMAGE, WORKLOADS, DockerServer

from stoker.domain.workload.phase import Phase

SERVE = f'echo "$POD_NAME $VALUE" > who; {HTTP_SERVER}'
MEET = """
own=$(hostname -i)
mkdir /tmp/files
echo "hello from $RANK at $own" > /tmp/files/hello
httpd -p "$MASTER_PORT" -h /tmp/files
peer=$MASTER_ADDR
if [ "$RANK" = 1 ]; then
    echo "$own" > written && mv written address
else
    until [ -e address ]; do usleep 50000; done
    peer=$(cat address)
fi
until wget -q -O - "http://$peer:$MASTER_PORT/hello"; do usleep 50000; done 2>/dev/null
touch "met-$RANK"
until [ -e met-0 ] && [ -e met-1 ]; do usleep 50000; done
"""
HUNGRY = "exec tail -c 200m /dev/zero"


@pytest.fixture(scope="module")
def works(docker_daemon: DockerDaemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerServer]:
    """The tests share it and stop what they started."""
    with DockerServer(docker_daemon, tmp_path_factory.mktemp("server") / "data") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _stop_leftovers(works: DockerServer) -> Iterator[None]:
    """A test that fails does not keep GPUs that the next one needs."""
    yield
    if refs := [item["workloadId"] for item in works.listed(phase="Pending,Running,Updating")]:
        works.stop(*refs)


def example(kind: str, script: str, replicas: int = 1) -> dict[str, Any]:
    """The create body of the document: only the image, the command and the size are others."""
    return EXAMPLE | {
        "workspaceId": "vision",
        "groupVersionKind": {"kind": kind, "version": "v1"},
        "image": OTHER_IMAGE,
        "entryPoint": encoded(script),
        "resource": {"cpu": "1", "gpu": "2", "memory": "128Mi", "replica": replicas},
    }


def create(works: DockerServer, body: dict[str, Any]) -> str:
    made = works.post(WORKLOADS, as_="member", json=body)
    assert made.status_code == 200, made.text
    return made.json()["workloadId"]


def uninstalled(works: DockerServer, ref: str) -> None:
    """Wait until the host has neither a container nor a volume of it."""
    works.until(lambda: works.on_host(ref) == [], "nothing is left on the host")


@pytest.mark.parametrize("kind", ["PyTorchJob", "Deployment", "StatefulSet", "Authoring", "Job"])
def test_the_body_of_the_document_runs_in_its_image(works: DockerServer, kind: str) -> None:
    ref = create(works, example(kind, f"echo $NCCL_DEBUG $CUDA_VISIBLE_DEVICES $(readlink /bin/sh); {WAIT}"))
    shown = works.running(ref)
    assert (shown["image"], shown["nodes"], shown["clusterId"]) == (OTHER_IMAGE, [[NODE]], "lab")
    assert works.inspect(ref, "{{.Config.Image}} {{.HostConfig.NanoCpus}} {{.HostConfig.Memory}}") == [
        f"{OTHER_IMAGE} {10**9} {128 * 2**20}"
    ]
    assert works.prints(ref, "INFO") == ["INFO 0,1 busybox"]
    works.stop(ref)
    assert works.ended(ref)["phase"] == "Stopped"


def test_an_authoring_without_a_command_idles_in_its_image(works: DockerServer) -> None:
    body = {name: value for name, value in example("Authoring", "").items() if name != "entryPoint"}
    ref = create(works, body)
    works.running(ref)
    assert works.inspect(ref, "{{.Config.Image}} {{.State.Running}}") == [f"{OTHER_IMAGE} true"]
    works.stop(ref)


def test_an_image_that_the_host_does_not_have_is_named(works: DockerServer) -> None:
    ref = works.submit(image="stoker-test/absent:9", run="true")
    works.until(lambda: "stoker-test/absent:9" in works.detail(ref)["message"], "the image is named")
    assert works.detail(ref)["phase"] != "Succeeded"
    works.stop(ref)


def test_two_replicas_reach_each_other(works: DockerServer) -> None:
    shown = works.ended(create(works, example("PyTorchJob", MEET, replicas=2)))
    ref = shown["workloadId"]
    said = [works.printed(ref, f"{ref}-{name}") for name in ("master-0", "worker-0")]
    assert shown["phase"] == "Succeeded", said
    addresses = [
        re.fullmatch(rf"hello from {rank} at (\S+)", "".join(lines)) for rank, lines in zip((1, 0), said, strict=True)
    ]
    assert all(addresses), said
    assert len({found[1] for found in addresses if found}) == 2, said


def test_what_runs_at_once_holds_different_gpus(works: DockerServer) -> None:
    refs = [works.submit(gpu=str(GPUS // 2), run=WAIT) for _ in range(2)]
    held = set()
    for ref in refs:
        works.running(ref)
        [requests] = works.inspect(ref, "{{json .HostConfig.DeviceRequests}}")
        held |= {device for request in json.loads(requests) for device in request["DeviceIDs"]}
    assert held == {str(index) for index in range(GPUS)}
    waits = works.submit(gpu="1", run="true")
    works.until(lambda: "1 GPU" in works.detail(waits)["message"], "it is told why it waits")
    assert works.containers(waits) == []
    works.stop(*refs)
    assert works.ended(waits)["phase"] == "Succeeded"


def test_a_pod_that_needs_too_much_memory_says_so(works: DockerServer) -> None:
    shown = works.finished(memory="64Mi", run=HUNGRY)
    ref = shown["workloadId"]
    assert shown["phase"] == "Failed"
    assert f"{ref}-worker-0" in shown["message"]
    assert "more memory than the 64" in shown["message"]
    assert works.row(ref)["message"] == shown["message"]


def test_a_container_that_is_removed_by_somebody_is_begun_again_without_spending_a_retry(works: DockerServer) -> None:
    ref = works.submit(run=f"echo x >> runs; echo run $(wc -l < runs); {WAIT}", maxRetry=0)
    works.prints(ref, "run 1")
    works.daemon.docker("rm", "-f", *works.containers(ref))
    works.until(lambda: works.detail(ref)["dispatchCount"] == 2, "it is dispatched again")
    shown = works.running(ref)
    assert [each["type"] for each in shown["conditions"]].count("Failover") == 1
    assert works.inside(ref).retries == 0
    works.prints(ref, "run 2")
    works.stop(ref)


def test_a_replica_that_exits_is_restarted_by_docker(works: DockerServer) -> None:
    ref = works.submit(kind="Deployment", run=f'echo x >> runs; [ "$(wc -l < runs)" -gt 1 ] || exit 5; echo up; {WAIT}')
    works.prints(ref, "up")
    works.until(lambda: works.detail(ref)["message"] == "", "every pod runs")
    assert (works.detail(ref)["phase"], works.detail(ref)["dispatchCount"]) == ("Running", 1)
    assert works.inspect(ref, "{{.RestartCount}}") == ["1"]
    works.stop(ref)


def test_a_deployment_is_edited_and_scaled_while_its_service_answers(works: DockerServer) -> None:
    ref = works.submit(kind="Deployment", run=SERVE, env={"VALUE": "old"}, service={"port": free_port()})
    works.running(ref)
    assert answers(works, ref).text == f"{ref}-0 old\n"
    edited = works.patch(f"{WORKLOADS}/{ref}", as_="member", json={"env": {"VALUE": "new"}, "replica": 2})
    assert edited.status_code == 204
    works.until(lambda: works.detail(ref)["phase"] == "Running", "both replicas are up")
    wanted = {f"{ref}-{rank} new\n" for rank in range(2)}
    seen: set[str] = set()
    works.until(lambda: bool(seen.add(answers(works, ref).text)) or seen >= wanted, "both replicas answer")
    assert seen == wanted
    works.until(lambda: works.inspect(ref, "{{.State.Running}}").count("true") == 2, "the old replica has ended")
    works.stop(ref)


@pytest.mark.parametrize("kind", ["PyTorchJob", "StatefulSet"])
def test_what_is_deleted_leaves_no_container_and_no_volume(works: DockerServer, kind: str) -> None:
    ref = works.submit(kind=kind, replica=2, gpu="1", run=f"echo kept > file-$RANK; echo up; {WAIT}")
    shown = works.running(ref)
    assert len(works.containers(ref)) == 2
    assert len(works.on_host(ref)) == (4 if kind == "StatefulSet" else 3), "containers and volumes"
    assert works.delete(f"{WORKLOADS}/{ref}", as_="member").status_code == 204
    assert works.get(f"{WORKLOADS}/{ref}", as_="member").status_code == 404
    works.until(lambda: works.inside(ref).phase is Phase.STOPPED, "its pods have ended")
    uninstalled(works, ref)
    assert len(shown["pods"]) == 2


def test_the_ttl_removes_the_container_and_keeps_log_and_volume(works: DockerServer) -> None:
    shown = works.finished(run="echo kept | tee kept", ttlSecondsAfterFinished=0)
    ref = shown["workloadId"]
    works.until(lambda: works.containers(ref) == [], "the container is removed")
    assert (works.detail(ref), works.printed(ref)) == (shown, ["kept"])
    [volume] = works.on_host(ref)
    folder = Path(works.daemon.docker("volume", "inspect", "-f", "{{.Mountpoint}}", volume))
    assert (folder / "kept").read_text() == "kept\n"
    assert works.delete(f"{WORKLOADS}/{ref}", as_="member").status_code == 204
    uninstalled(works, ref)


class ExecSession:
    """The WebSocket of one command; `run` returns what it printed and its exit code."""

    def __init__(self, works: DockerServer, ref: str, **query: Any) -> None:
        self._works = works
        scope = works.scope(f"{V1}/workloads/{ref}/exec?{urlencode(query, doseq=True)}", "member")
        self._scope = {**scope, "type": "websocket", "scheme": "ws", "subprotocols": []}
        self._input: asyncio.Queue[Message] = asyncio.Queue()
        self._input.put_nowait({"type": "websocket.connect"})
        self._output = b""
        self._exit_code: int | None = None

    def type(self, data: bytes) -> None:
        self._input.put_nowait({"type": "websocket.receive", "bytes": data})

    def control(self, **frame: Any) -> None:
        self._input.put_nowait({"type": "websocket.receive", "text": json.dumps(frame)})

    def run(self) -> tuple[str, int | None]:
        async def session() -> None:
            async with asyncio.timeout(20):
                await self._works.app(self._scope, self._input.get, self._receive)

        self._works.run(session())
        return self._output.decode(), self._exit_code

    async def _receive(self, message: Message) -> None:
        self._output += message.get("bytes") or b""
        if text := message.get("text"):
            self._exit_code = json.loads(text).get("exit")


def test_a_command_runs_in_the_container_of_the_pod_that_was_named(works: DockerServer) -> None:
    ref = works.submit(replica=2, run=f"echo $RANK > /tmp/rank; {WAIT}")
    works.running(ref)
    for rank, pod in enumerate(("master-0", "worker-0")):
        command = ["sh", "-c", "cat /tmp/rank -; exit 7"]
        session = ExecSession(works, ref, pod=f"{ref}-{pod}", tty="false", command=command)
        session.type(b"typed\n")
        session.control(eof=True)
        assert session.run() == (f"{rank}\ntyped\n", 7)
    # Docker sets the size of a terminal only after the command has begun.
    terminal = ExecSession(works, ref, columns=99, rows=11, command=["sh", "-c", "sleep 0.5; stty size"])
    assert terminal.run() == ("11 99\r\n", 0)
    works.stop(ref)
