import msgspec

from stoker.domain.cluster.node import Device
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.model import Workload
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.pod_env import PodEnv, build_pod_env


def workload(kind: Kind = Kind.PYTORCH_JOB, gpus: int = 0, replicas: int = 1, **env: str) -> Workload:
    return Workload(
        uid="u1",
        slug="train-b2c4d",
        name="train",
        kind=kind,
        cluster_id="local",
        workspace_id=1,
        namespace="research",
        user_id="1",
        user_name="ada",
        origin_api="management",
        spec=Spec(resources=Resources(gpu_milli=gpus * 1000), replicas=replicas, env=env),
        submitted_at=0,
        phase_at=0,
    )


def pod(rank: int = 0, devices: tuple[int, ...] = (), port: int = 0) -> Pod:
    return Pod(
        uid="p1",
        workload_uid="u1",
        name=f"train-b2c4d-worker-{rank}",
        attempt=1,
        revision=1,
        rank=rank,
        node="node-1",
        resources=Resources(),
        devices=devices,
        port=port,
        created_at=0,
    )


def env_of(workload: Workload, pod: Pod, *devices: Device) -> PodEnv:
    return build_pod_env(workload, pod, master_address="10.0.0.1", master_port=23456, devices=devices)


def nvidia_uuid(number: int) -> str:
    return f"GPU-{number:08x}-1111-2222-3333-444455556666"


def test_a_pod_is_told_where_it_stands_among_its_peers() -> None:
    env = env_of(workload(gpus=8, replicas=4), pod(2, tuple(range(8)))).env
    assert (env["WORLD_SIZE"], env["RANK"], env["LOCAL_RANK"]) == ("4", "2", "0")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("10.0.0.1", "23456")
    assert (env["PET_NNODES"], env["PET_NODE_RANK"], env["PET_NPROC_PER_NODE"]) == ("4", "2", "8")
    assert (env["PET_MASTER_ADDR"], env["PET_MASTER_PORT"]) == ("10.0.0.1", "23456")


def test_a_pod_is_told_who_it_is() -> None:
    env = env_of(workload(gpus=2), pod(0, (0, 1), port=20001)).env
    assert env["POD_NAME"] == "train-b2c4d-worker-0"
    assert env["WORKLOAD_ID"] == "train-b2c4d"
    assert env["WORKLOAD_KIND"] == "PyTorchJob"
    assert env["WORKSPACE"] == "research"
    assert env["NODE_NAME"] == "node-1"
    assert env["GPUS_PER_NODE"] == "2"
    assert env["PORT"] == "20001"
    assert "PORT" not in env_of(workload(), pod()).env


def test_replicas_of_a_deployment_have_no_peers() -> None:
    env = env_of(workload(Kind.DEPLOYMENT, replicas=3), pod(2)).env
    assert (env["WORLD_SIZE"], env["RANK"], env["PET_NNODES"]) == ("1", "0", "1")


def test_without_gpus_none_are_visible() -> None:
    env = env_of(workload(), pod()).env
    assert env["CUDA_VISIBLE_DEVICES"] == env["HIP_VISIBLE_DEVICES"] == env["ROCR_VISIBLE_DEVICES"] == ""


def test_the_given_devices_are_visible() -> None:
    no_uuids = (Device(4, "", "NVIDIA H100"), Device(6, "", "NVIDIA H100"))
    pretend = (Device(4, nvidia_uuid(4), "H100", pretend=True), Device(6, nvidia_uuid(6), "H100", pretend=True))
    simulated = (Device(4, "GPU-00000000deadbeef", "NVIDIA H100"), Device(6, "GPU-00000000deadbee0", "NVIDIA H100"))
    for devices in (no_uuids, pretend, simulated, no_uuids[:1], ()):
        env = env_of(workload(gpus=2), pod(0, (4, 6)), *devices).env
        assert env["CUDA_VISIBLE_DEVICES"] == env["HIP_VISIBLE_DEVICES"] == env["ROCR_VISIBLE_DEVICES"] == "4,6"


def test_nvidia_gpus_are_visible_by_uuid_in_the_order_of_the_pod() -> None:
    devices = tuple(Device(index, nvidia_uuid(index), "NVIDIA H100") for index in (4, 6))
    env = env_of(workload(gpus=2), pod(0, (6, 4)), *devices).env
    assert env["CUDA_VISIBLE_DEVICES"] == f"{nvidia_uuid(6)},{nvidia_uuid(4)}"


def test_amd_gpus_are_visible_by_uuid() -> None:
    devices = tuple(Device(index, f"GPU-{index:016x}", "AMD Instinct MI300X") for index in (4, 6))
    env = env_of(workload(gpus=2), pod(0, (4, 6)), *devices).env
    assert env["ROCR_VISIBLE_DEVICES"] == "GPU-0000000000000004,GPU-0000000000000006"
    assert env["HIP_VISIBLE_DEVICES"] == env["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_cuda_counts_by_pci_bus_id_in_every_pod_whatever_the_user_says() -> None:
    assert env_of(workload(), pod()).env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    told = env_of(workload(CUDA_DEVICE_ORDER="FASTEST_FIRST"), pod())
    assert (told.env["CUDA_DEVICE_ORDER"], told.overridden) == ("PCI_BUS_ID", ("CUDA_DEVICE_ORDER",))


def test_on_amd_hip_counts_among_the_devices_that_rocr_has_left() -> None:
    devices = tuple(Device(index, "", "AMD Instinct MI300X") for index in (4, 6))
    env = env_of(workload(gpus=2), pod(0, (4, 6)), *devices).env
    assert (env["ROCR_VISIBLE_DEVICES"], env["HIP_VISIBLE_DEVICES"]) == ("4,6", "0,1")


def test_where_the_engine_gives_out_devices_itself_nothing_is_said_of_them() -> None:
    told = env_of(workload(gpus=2, CUDA_VISIBLE_DEVICES="0"), pod())
    assert "CUDA_VISIBLE_DEVICES" not in told.env
    assert told.overridden == ("CUDA_VISIBLE_DEVICES",)


def test_ranks_and_devices_are_not_the_users_to_say_but_all_else_is() -> None:
    wanted = {"RANK": "7", "CUDA_VISIBLE_DEVICES": "0,1", "WORLD_SIZE": "1", "POD_NAME": "mine", "PORT": "1", "X": ""}
    told = env_of(workload(**wanted), pod(port=20001))
    assert told.overridden == ("CUDA_VISIBLE_DEVICES", "RANK")
    assert told.env["RANK"] == "0"
    assert told.env["CUDA_VISIBLE_DEVICES"] == ""
    assert (told.env["POD_NAME"], told.env["PORT"], told.env["X"]) == ("mine", "1", "")


def test_a_part_of_a_gpu_counts_as_one() -> None:
    half = msgspec.structs.replace(workload(), spec=Spec(resources=Resources(gpu_milli=500)))
    assert env_of(half, pod(0, (1,))).env["GPUS_PER_NODE"] == "1"
