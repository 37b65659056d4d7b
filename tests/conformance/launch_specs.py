"""Builds the launch specs of the suite."""

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence

import pytest
from msgspec import Struct, structs
from tests.conformance.engine_fixture import POD_UID_VARIABLE, EngineFixture, Feature
from tests.conformance.programs import Program

from stoker.domain.cluster.capabilities import Capabilities, Owner
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.spec import Kind, ReadinessSpec, Service
from stoker.engines.model import ContainerSpec, LaunchSpec, PodAssignment, Rendezvous, WorkloadRef
from stoker.engines.pod_env import RENDEZVOUS_PORTS, VISIBLE_DEVICES_VARIABLES

LOOPBACK = "127.0.0.1"
SIMULATION_PREFIX = "stoker.simulate/"
SMALL = Resources(cpu_milli=500, memory_bytes=256 * 2**20)


class SpecBuilder(Struct, frozen=True):
    """Launch specs for one engine."""

    fixture: EngineFixture
    capabilities: Capabilities

    def build(
        self,
        program: Program,
        *,
        kind: Kind = Kind.JOB,
        replicas: int = 1,
        attempt: int = 1,
        env: Mapping[str, str] | None = None,
        resources: Resources = SMALL,
        devices: Sequence[Sequence[DeviceRef]] = (),
        service: Service | None = None,
        readiness: ReadinessSpec | None = None,
        grace_seconds: float = 10.0,
    ) -> LaunchSpec:
        slug = f"conformance-{uuid.uuid4().hex[:6]}"
        port = random.choice(RENDEZVOUS_PORTS)
        launch_spec = LaunchSpec(
            ref=WorkloadRef(uid=str(uuid.uuid4()), slug=slug, namespace="research", attempt=attempt),
            kind=kind,
            replicas=replicas,
            containers=(
                ContainerSpec(image=self.fixture.image, entry_point=program.script, resources=resources, env=env or {}),
            ),
            annotations=self._annotations(program),
            service=service,
            readiness=readiness,
            restart_on_exit=not kind.runs_to_completion,
            rolling_update=kind.uses_rolling_update,
            grace_seconds=grace_seconds,
            rendezvous=Rendezvous(port, replicas, LOOPBACK),
        )
        return structs.replace(launch_spec, pods=self.new_pods(launch_spec, range(replicas), devices))

    def new_pods(
        self, launch_spec: LaunchSpec, ranks: Iterable[int], devices: Sequence[Sequence[DeviceRef]] = ()
    ) -> tuple[PodAssignment, ...]:
        """New pods with these ranks; none if the engine places pods."""
        if self.capabilities.placement is Owner.ENGINE:
            return ()
        return tuple(self._new_pod(launch_spec, rank, tuple(devices[rank]) if devices else ()) for rank in ranks)

    def next_revision(self, launch_spec: LaunchSpec, program: Program) -> LaunchSpec:
        """The next revision, with another program and new pods."""
        changed = structs.replace(
            launch_spec,
            ref=structs.replace(launch_spec.ref, revision=launch_spec.ref.revision + 1),
            containers=(structs.replace(launch_spec.main, entry_point=program.script),),
            annotations=self._annotations(program),
        )
        return structs.replace(changed, pods=self.new_pods(changed, range(launch_spec.replicas)))

    def scale(self, launch_spec: LaunchSpec, replicas: int) -> LaunchSpec:
        """The next revision with another number of replicas. Pods that stay are the same."""
        changed = structs.replace(
            launch_spec,
            ref=structs.replace(launch_spec.ref, revision=launch_spec.ref.revision + 1),
            replicas=replicas,
        )
        added = self.new_pods(changed, range(len(launch_spec.pods), replicas))
        return structs.replace(changed, pods=(*launch_spec.pods, *added)[:replicas])

    def _annotations(self, program: Program) -> dict[str, str]:
        if program.simulation is None:
            if reason := self.fixture.unsupported.get(Feature.PROGRAMS):
                pytest.skip(reason)
            return {}
        return {f"{SIMULATION_PREFIX}{name}": str(value) for name, value in program.simulation.items()}

    def _new_pod(self, launch_spec: LaunchSpec, rank: int, devices: tuple[DeviceRef, ...]) -> PodAssignment:
        uid = str(uuid.uuid4())
        world = (0, 1) if launch_spec.rolling_update else (rank, launch_spec.replicas)
        visible = ",".join(str(device.index) for device in devices)
        env = {
            **launch_spec.main.env,
            "RANK": str(world[0]),
            "WORLD_SIZE": str(world[1]),
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": str(launch_spec.rendezvous.port),
            **dict.fromkeys(VISIBLE_DEVICES_VARIABLES, visible),
            POD_UID_VARIABLE: uid,
        }
        return PodAssignment(uid, f"{launch_spec.ref.slug}-{rank}", rank, self.fixture.node_name, devices, env)
