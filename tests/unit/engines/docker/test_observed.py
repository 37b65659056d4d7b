"""What Docker reports becomes pods, and what others run becomes foreign workloads."""

import uuid
from typing import Any

import pytest
from msgspec import structs

from stoker.domain.cluster.node import Device, DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Service
from stoker.engines.docker.api.schema import (
    ContainerInspect,
    ContainerState,
    DeviceMapping,
    DeviceRequest,
    HostConfig,
    ImageConfig,
    NetworkSettings,
    PortBinding,
)
from stoker.engines.docker.config import DockerConfig, GpuVendor, TlsConfig, check_config
from stoker.engines.docker.foreign import find_foreign, observed_pod, observed_workload
from stoker.engines.docker.gpus import HostGpus, find_gpus, held_devices
from stoker.engines.docker.labels import ContainerRecord, container_labels, read_record
from stoker.engines.docker.pod import DockerPod
from stoker.engines.model import EnginePhase
from stoker.engines.proxy.tcp import ReplicaAddress
from stoker.engines.replicas.replica import ReadinessProbe

NVIDIA = HostGpus(tuple(Device(index, f"GPU-{index}{index}", "NVIDIA H100") for index in range(4)))
AMD = HostGpus(tuple(Device(index, f"GPU-a{index}", "AMD Instinct MI300X") for index in range(4)))
CLUSTER = uuid.UUID(int=7)
RECORD = ContainerRecord(
    uid="p-1",
    name="train-0",
    workload_uid="w-1",
    slug="train",
    attempt=2,
    revision=3,
    rank=0,
    kind="Job",
    node="node",
    resources=Resources(0, 0, 64 * 2**20),
)
TERMINATED = "The command was ended by signal 15 (SIGTERM)."
STARTED, FINISHED = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def pod(record: ContainerRecord = RECORD, restarts: int = 0, **state: Any) -> DockerPod:
    made = structs.replace(ContainerState(started_at=STARTED, finished_at=FINISHED), **state)
    return DockerPod(record, ContainerInspect("c1", restart_count=restarts, state=made), "127.0.0.1")


@pytest.mark.parametrize(
    ("state", "phase", "code", "signal", "message"),
    [
        ({"status": "created", "started_at": ""}, PodPhase.PENDING, None, None, ""),
        ({"status": "running"}, PodPhase.RUNNING, None, None, ""),
        ({"status": "exited", "exit_code": 0}, PodPhase.SUCCEEDED, 0, None, ""),
        ({"status": "exited", "exit_code": 3}, PodPhase.FAILED, 3, None, "The command ended with exit code 3."),
        (
            {"status": "exited", "exit_code": 137},
            PodPhase.FAILED,
            137,
            9,
            "The command was ended by signal 9 (SIGKILL).",
        ),
        ({"status": "exited", "exit_code": 255}, PodPhase.FAILED, 255, None, "The command ended with exit code 255."),
        (
            {"status": "exited", "exit_code": 137, "oom_killed": True},
            PodPhase.FAILED,
            137,
            9,
            "It needed more memory than the 64 MiB it asked for. Ask for more.",
        ),
        ({"status": "dead"}, PodPhase.LOST, 0, None, "Docker could not remove it."),
    ],
)
def test_states_of_containers_are_phases_of_pods(
    state: dict[str, Any], phase: PodPhase, code: int | None, signal: int | None, message: str
) -> None:
    seen = pod(**state).observed()
    assert (seen.phase, seen.exit_code, seen.signal, seen.message) == (phase, code, signal, message)
    assert (seen.ended_at is not None) == phase.is_finished


def test_a_container_that_waits_for_its_restart_runs_and_is_not_ready() -> None:
    seen = pod(restarts=4, status="restarting", exit_code=3).observed()
    assert (seen.phase, seen.ready, seen.restarts) == (PodPhase.RUNNING, False, 4)
    assert seen.message == "The command ended with exit code 3. It starts again soon."


def test_a_container_that_ended_with_dockerd_is_lost_and_has_no_exit_code() -> None:
    made = pod(status="exited", exit_code=143)
    assert made.was_ended_from_outside
    made.is_lost = True
    assert (made.observed().phase, made.observed().exit_code) == (PodPhase.LOST, None)
    assert not pod(status="exited", exit_code=1).was_ended_from_outside


def test_a_replica_is_ready_after_its_probe_and_until_its_next_run() -> None:
    record = structs.replace(RECORD, check=ReadinessProbe(80))
    made = pod(record, status="running")
    assert not made.is_ready
    made.set_ready(True)
    assert made.is_ready
    made.update(ContainerInspect("c1", state=ContainerState(status="running", started_at="2026-01-01T00:00:09Z")))
    assert not made.is_ready


def test_the_address_of_a_replica_is_its_published_port() -> None:
    record = structs.replace(RECORD, port=8000, service=Service(80, 8000))
    ports = NetworkSettings(ports={"8000/tcp": [PortBinding("127.0.0.1", "49153")]})
    state = ContainerState(status="running", started_at=STARTED)
    assert DockerPod(record, ContainerInspect("c", state=state, network_settings=ports), "10.0.0.1").address == (
        ReplicaAddress("10.0.0.1", 49153)
    )


def test_only_containers_of_this_installation_are_ours() -> None:
    config = ImageConfig(labels=container_labels("inst", RECORD))
    assert read_record(ContainerInspect("c", config=config), "inst") == RECORD
    assert read_record(ContainerInspect("c", config=config), "other") is None
    assert read_record(ContainerInspect("c"), "inst") is None


GPU = [["gpu"]]


@pytest.mark.parametrize(
    ("host", "env", "expected"),
    [
        (HostConfig(device_requests=[DeviceRequest(count=2, capabilities=GPU)]), [], [0, 1]),
        (HostConfig(device_requests=[DeviceRequest(count=-1, capabilities=GPU)]), [], [0, 1, 2, 3]),
        (HostConfig(device_requests=[DeviceRequest(device_ids=["3", "1"], capabilities=GPU)]), [], [1, 3]),
        (HostConfig(device_requests=[DeviceRequest("nvidia", device_ids=["GPU-22"])]), [], [2]),
        (HostConfig(device_requests=[DeviceRequest("cdi", device_ids=["nvidia.com/gpu=1"])]), [], [1]),
        (HostConfig(device_requests=[DeviceRequest("cdi", device_ids=["nvidia.com/gpu=all"])]), [], [0, 1, 2, 3]),
        (HostConfig(device_requests=[DeviceRequest("tpu", count=-1, capabilities=[["tpu"]])]), [], []),
        (HostConfig(runtime="nvidia"), ["NVIDIA_VISIBLE_DEVICES=0,GPU-33"], [0, 3]),
        (HostConfig(runtime="nvidia"), ["NVIDIA_VISIBLE_DEVICES=all"], [0, 1, 2, 3]),
        (HostConfig(runtime="nvidia"), ["NVIDIA_VISIBLE_DEVICES=void"], []),
        (HostConfig(runtime="runc"), ["NVIDIA_VISIBLE_DEVICES=all"], []),
        (HostConfig(), [], []),
    ],
)
def test_the_gpus_of_a_container_follow_from_its_configuration(
    host: HostConfig, env: list[str], expected: list[int]
) -> None:
    container = ContainerInspect("c", host_config=host, config=ImageConfig(env=env))
    assert [device.index for device in held_devices(container, NVIDIA)] == expected


@pytest.mark.parametrize(
    ("paths", "expected"),
    [(["/dev/kfd", "/dev/dri/renderD129"], [1]), (["/dev/dri"], [0, 1, 2, 3]), (["/dev/kfd"], [])],
)
def test_amd_gpus_are_held_through_their_render_nodes(paths: list[str], expected: list[int]) -> None:
    container = ContainerInspect("c", host_config=HostConfig(devices=[DeviceMapping(path) for path in paths]))
    assert [device.index for device in held_devices(container, AMD)] == expected


def test_render_nodes_are_those_that_the_machine_names() -> None:
    container = ContainerInspect("c", host_config=HostConfig(devices=[DeviceMapping("/dev/dri/renderD144")]))
    assert [device.index for device in held_devices(container, HostGpus(AMD.devices, (128, 136, 144, 152)))] == [2]


def test_a_foreign_container_with_gpus_is_a_workload_with_one_pod() -> None:
    labels = {"com.docker.compose.project": "lab", "com.docker.compose.service": "notebook"}
    container = ContainerInspect(
        "c9",
        name="/lab_notebook_1",
        created="2026-01-01T00:00:00Z",
        state=ContainerState(status="running", started_at=STARTED),
        config=ImageConfig(image="jupyter", labels=labels),
        host_config=HostConfig(device_requests=[DeviceRequest(count=1, capabilities=GPU)], memory=2**30),
    )
    found = find_foreign(container, NVIDIA)
    assert found is not None
    workload, seen = observed_workload(found, CLUSTER), observed_pod(found, CLUSTER, "node")
    assert (workload.kind, workload.name, workload.namespace) == ("Container", "lab_notebook_1", "lab")
    assert (workload.phase, workload.image, workload.resources) == (
        EnginePhase.RUNNING,
        "jupyter",
        Resources(1000, 0, 2**30),
    )
    assert [owner.name for owner in workload.owners] == ["notebook"]
    assert workload.uid == observed_workload(found, CLUSTER).uid != observed_workload(found, uuid.UUID(int=8)).uid
    assert (seen.owner_ref, seen.workload_uid, seen.devices) == ("c9", "", (DeviceRef(0, "GPU-00"),))
    assert seen.uid != workload.uid
    assert find_foreign(ContainerInspect("c"), NVIDIA) is None


def test_declared_gpus_have_the_model_of_the_cluster() -> None:
    config = DockerConfig(gpus=2, gpu_model="MI300X", gpu_vendor=GpuVendor.AMD)
    declared = find_gpus(config, "host").devices
    assert [(device.index, device.model) for device in declared] == [(0, "AMD MI300X"), (1, "AMD MI300X")]
    assert find_gpus(DockerConfig(url="tcp://far:2376"), "far") == HostGpus()


@pytest.mark.parametrize(
    "config",
    [
        DockerConfig(url="/var/run/docker.sock"),
        DockerConfig(url="unix://relative.sock"),
        DockerConfig(url="tcp://:2376"),
        DockerConfig(url="tcp://host:port"),
        DockerConfig(tls=TlsConfig("a")),
        DockerConfig(gpus=-1),
        DockerConfig(allowed_mounts=("data",)),
        DockerConfig(allowed_mounts=("/data/../etc",)),
        DockerConfig(working_dir="/"),
    ],
)
def test_settings_that_cannot_work_are_refused(config: DockerConfig) -> None:
    with pytest.raises(Exception, match=r".+"):
        check_config(config)


def test_settings_that_can_work_are_accepted_and_hide_the_key() -> None:
    config = DockerConfig(url="tcp://host", tls=TlsConfig("ca", "cert", "secret"))
    check_config(config)
    assert (config.host, config.port, config.is_local) == ("host", 2376, False)
    assert "secret" not in repr(config)
