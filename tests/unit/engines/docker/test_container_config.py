"""A launch spec becomes the configuration of a container."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.domain.cluster.node import Device, DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.spec import Kind, PortProtocol, Service
from stoker.engines.docker.api.schema import ImageConfig
from stoker.engines.docker.config import HOST_NETWORK, DockerConfig
from stoker.engines.docker.container_config import (
    MOUNTS_ANNOTATION,
    PodPlacement,
    build_record,
    create_body,
    image_reference,
    service_port,
)
from stoker.engines.docker.gpus import HostGpus
from stoker.engines.docker.labels import (
    INSTALLATION_LABEL,
    RECORD_LABEL,
    ContainerRecord,
    container_name,
    host_name_of,
    volume_name,
)
from stoker.engines.model import ContainerSpec, LaunchSpec, PodAssignment, WorkloadRef

NVIDIA = HostGpus(tuple(Device(index, f"GPU-{index}{index}", "NVIDIA H100") for index in range(4)))
AMD = HostGpus(tuple(Device(index, f"GPU-a{index}", "AMD Instinct MI300X") for index in range(4)))
OWN_NETWORK = PodPlacement("stoker-1", publish_host="127.0.0.1")


def spec(script: str = "echo hi", *, image: str = "busybox:1", **parts: Any) -> LaunchSpec:
    pod = PodAssignment("uid-1", "train-0", 0, "node", parts.pop("devices", ()), parts.pop("env", {}))
    main = ContainerSpec(image=image, entry_point=script, resources=parts.pop("resources", Resources()))
    ref = WorkloadRef(uid="w-1", slug="train", attempt=2, revision=3)
    return LaunchSpec(ref=ref, kind=parts.pop("kind", Kind.JOB), containers=(main,), pods=(pod,), **parts)


def body(
    launch_spec: LaunchSpec,
    *,
    config: DockerConfig | None = None,
    placement: PodPlacement = OWN_NETWORK,
    image: ImageConfig | None = None,
    gpus: HostGpus = NVIDIA,
) -> dict[str, Any]:
    pod = launch_spec.pods[0]
    record = build_record(launch_spec, pod, placement, "node")
    made = create_body(
        config or DockerConfig(),
        "inst",
        launch_spec,
        pod,
        record,
        placement,
        image or ImageConfig(cmd=["/run"]),
        gpus,
    )
    return msgspec.json.decode(msgspec.json.encode(made))


def env(made: dict[str, Any]) -> dict[str, str]:
    return dict(text.split("=", 1) for text in made["Env"])


def test_an_entry_point_runs_in_a_shell_and_replaces_that_of_the_image() -> None:
    made = body(spec("python train.py"))
    assert (made["Entrypoint"], made["Cmd"]) == (["/bin/sh", "-c"], ["python train.py"])


def test_without_an_entry_point_the_image_decides() -> None:
    made = body(spec(""))
    assert "Entrypoint" not in made
    assert "Cmd" not in made


def test_an_image_without_a_command_needs_an_entry_point() -> None:
    with pytest.raises(StokerError, match="the image has no command of its own"):
        body(spec(""), image=ImageConfig())


def test_an_authoring_pod_without_a_command_idles() -> None:
    assert "sleep" in body(spec("", kind=Kind.AUTHORING), image=ImageConfig())["Cmd"][0]


def test_limits_are_those_of_the_request_and_swap_adds_nothing() -> None:
    host = body(spec(resources=Resources(0, 1500, 2**30)))["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (1_500_000_000, 2**30, 2**30)
    assert host["ShmSize"] == DockerConfig().shm_bytes


def test_nvidia_gpus_are_requested_by_uuid_and_numbered_from_zero_inside() -> None:
    made = body(spec(devices=(DeviceRef(2, "GPU-22"), DeviceRef(3, "GPU-33"))))
    (request,) = made["HostConfig"]["DeviceRequests"]
    assert request == {"Driver": "nvidia", "DeviceIDs": ["GPU-22", "GPU-33"], "Capabilities": [["gpu"]]}
    assert env(made)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert env(made)["NVIDIA_VISIBLE_DEVICES"] == "GPU-22,GPU-33"


def test_declared_gpus_are_requested_by_index() -> None:
    made = body(spec(devices=(DeviceRef(2, "host-gpu-2"),)))
    assert made["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["2"]


def test_a_pod_without_gpus_gets_none_whatever_its_image_and_its_user_say() -> None:
    made = body(spec(env={"NVIDIA_VISIBLE_DEVICES": "all"}))
    assert "DeviceRequests" not in made["HostConfig"]
    assert env(made)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_amd_gpus_are_device_files() -> None:
    host = body(spec(devices=(DeviceRef(1), DeviceRef(3))), gpus=AMD)["HostConfig"]
    assert [device["PathOnHost"] for device in host["Devices"]] == [
        "/dev/kfd",
        "/dev/dri/renderD129",
        "/dev/dri/renderD131",
    ]


def test_the_record_in_the_labels_says_everything_that_the_next_engine_needs() -> None:
    launch_spec = spec(labels={"team": "a", INSTALLATION_LABEL: "theirs"}, devices=(DeviceRef(1, "GPU-11"),))
    labels = body(launch_spec)["Labels"]
    assert labels["team"] == "a"
    assert labels[INSTALLATION_LABEL] == "inst"
    record = msgspec.json.decode(labels[RECORD_LABEL], type=ContainerRecord)
    assert record == build_record(launch_spec, launch_spec.pods[0], OWN_NETWORK, "node")
    assert (record.workload_uid, record.attempt, record.revision, record.devices[0].index) == ("w-1", 2, 3, 1)


def test_mounts_are_refused_unless_the_cluster_allows_them(tmp_path: Path) -> None:
    (tmp_path / "data" / "sets").mkdir(parents=True)
    (tmp_path / "data" / "escape").symlink_to("/etc")
    config = DockerConfig(allowed_mounts=(str(tmp_path / "data"),))
    mounts = body(spec(annotations={MOUNTS_ANNOTATION: f"{tmp_path}/data/sets:/sets:ro"}), config=config)
    assert mounts["HostConfig"]["Mounts"][1] == {
        "Type": "bind",
        "Source": f"{tmp_path}/data/sets",
        "Target": "/sets",
        "ReadOnly": True,
    }
    for refused in ("/etc", f"{tmp_path}/data/../other", f"{tmp_path}/data/escape", f"{tmp_path}/database"):
        with pytest.raises(StokerError, match="cannot be mounted") as caught:
            body(spec(annotations={MOUNTS_ANNOTATION: refused}), config=config)
        assert caught.value.code is ErrorCode.BAD_REQUEST
    with pytest.raises(StokerError, match="allows no mounts"):
        body(spec(annotations={MOUNTS_ANNOTATION: "/etc"}))


def test_the_working_directory_is_that_of_the_image_else_the_volume() -> None:
    assert body(spec())["WorkingDir"] == "/work"
    assert body(spec(), image=ImageConfig(working_dir="/app"))["WorkingDir"] == "/app"
    assert body(spec())["HostConfig"]["Mounts"][0]["Target"] == "/work"


def test_replicas_of_rolling_kinds_have_a_volume_each() -> None:
    one = body(spec())["HostConfig"]["Mounts"][0]["Source"]
    other = body(spec(rolling_update=True))["HostConfig"]["Mounts"][0]["Source"]
    assert (one, other) == (volume_name("inst", "train", None), volume_name("inst", "train", 0))
    assert one != other


def test_a_service_port_is_published_on_a_port_that_docker_chooses() -> None:
    launch_spec = spec(service=Service(80, 8000))
    port = service_port(launch_spec, launch_spec.pods[0])
    made = body(launch_spec, placement=PodPlacement("net", port, publish_host="127.0.0.1"))
    assert made["HostConfig"]["PortBindings"] == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert env(made)["PORT"] == "8000"


def test_udp_is_published_as_udp_and_the_port_of_the_user_wins() -> None:
    launch_spec = spec(service=Service(80, 8000, PortProtocol.UDP), env={"PORT": "9000"})
    port = service_port(launch_spec, launch_spec.pods[0])
    made = body(launch_spec, placement=PodPlacement("net", port, publish_host="127.0.0.1"))
    assert list(made["ExposedPorts"]) == ["9000/udp"]


def test_on_the_network_of_the_host_nothing_is_published() -> None:
    made = body(spec(service=Service(80, 8000)), placement=PodPlacement(HOST_NETWORK, 21_000))
    assert "PortBindings" not in made["HostConfig"]
    assert "Hostname" not in made


def test_containers_of_kinds_that_run_for_ever_are_restarted_by_docker() -> None:
    assert body(spec())["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert body(spec(restart_on_exit=True))["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"


def test_an_image_has_to_come_from_somewhere() -> None:
    assert image_reference(DockerConfig(default_image="base:1"), spec(image="none")) == "base:1"
    with pytest.raises(StokerError, match="no default image"):
        image_reference(DockerConfig(), spec(image="none"))


@pytest.mark.parametrize("name", ["train-0", "größe.x-0", "_x", "a" * 300, ""])
def test_names_are_what_docker_accepts(name: str) -> None:
    made = container_name(name, "uid")
    assert made[0].isascii()
    assert made[0].isalnum()
    assert len(made) <= 128
    assert len(host_name_of(name)) <= 63
    assert made != container_name(name, "other")


@pytest.mark.parametrize("bad", [{"A=B": "x"}, {"A": "x\0"}, {"": "x"}])
def test_variables_that_cannot_be_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(StokerError, match="cannot be a variable"):
        body(spec(env=bad))
