"""The simulated fleet: the same seed always gives the same world, and the world keeps to physics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.workload.spec import Kind
from stoker.engines.simulated.fleet.faults import DAY_MS, FAULT_EPOCH_MS, WHOLE_NODE, FaultSchedule
from stoker.engines.simulated.fleet.gpu_models import MODELS, model_columns
from stoker.engines.simulated.fleet.nodes import LARGE_NODE_GPUS, MIN_FLEET_GPUS, SimulatedFleet, build_machine_groups
from stoker.engines.simulated.output.training_run import TrainingRun
from stoker.engines.simulated.scenario import Framework, LoadProfile, ScenarioInput, build_scenario
from stoker.engines.simulated.signals.gpu_load import load_parameters
from stoker.engines.simulated.signals.sensors import COOLDOWN_MS, SampleMatrix, SensorModel, SimulatedAllocation

NOW = 1_790_000_000_000
HOUR = 3_600_000
SEED = 7


def machines(gpus: int = 64, seed: int = SEED) -> SimulatedFleet:
    return SimulatedFleet(build_machine_groups(gpus), seed)


def sensors(fleet: SimulatedFleet, days: float = 0.0) -> SensorModel:
    return SensorModel(fleet, FaultSchedule(fleet, days))


def held(
    uid: str, rows: tuple[int, ...], begun_at: int, ended_at: int | None = None, **parts: object
) -> SimulatedAllocation:
    """A pod that works on these GPUs."""
    asked = {f"stoker.simulate/{key}": str(value) for key, value in parts.items() if key != "milli"}
    told = build_scenario(SEED, ScenarioInput(uid, 1, 1, Kind.PYTORCH_JOB, 1, len(rows), asked))
    return SimulatedAllocation(
        uid, rows, begun_at, ended_at, load_parameters(told), 8000, 2**34, int(str(parts.get("milli", 1000)))
    )


class TestMachines:
    def test_the_usual_fleet_has_what_the_largest_example_needs(self) -> None:
        fleet = machines(1024)
        assert fleet.gpu_count == 1024
        large = [node for node in fleet.nodes if len(node.devices) == LARGE_NODE_GPUS]
        assert len(large) == 8
        assert all(node.cpu_milli >= 256_000 and node.memory_bytes >= 2 * 2**40 for node in large)
        assert {device.model for node in fleet.nodes for device in node.devices} == {model.name for model in MODELS}

    @pytest.mark.parametrize("gpus", [MIN_FLEET_GPUS, 64, 100, 1024, 5000])
    def test_a_fleet_has_about_the_gpus_that_were_asked_for(self, gpus: int) -> None:
        assert gpus <= machines(gpus).gpu_count < gpus + 8

    @pytest.mark.parametrize("nodes", [1, 2, 3, 15, 120])
    def test_a_fleet_has_exactly_the_nodes_that_were_asked_for(self, nodes: int) -> None:
        assert len(SimulatedFleet(build_machine_groups(0, nodes), 1).nodes) == nodes

    def test_every_node_says_that_it_is_simulated(self) -> None:
        assert {node.labels["stoker.simulated"] for node in machines().nodes} == {"true"}

    def test_names_addresses_and_devices_are_unlike(self) -> None:
        fleet = machines(5000)
        assert len({node.address for node in fleet.nodes}) == len({node.name for node in fleet.nodes})
        assert len({device.uuid for node in fleet.nodes for device in node.devices}) == fleet.gpu_count

    def test_rows_are_where_the_columns_say(self) -> None:
        fleet = machines()
        for node in fleet.nodes:
            for row in fleet.device_rows(node.name, range(len(node.devices))):
                assert fleet.names[fleet.row_node[row]] == node.name
                assert MODELS[fleet.row_model[row]].name == node.devices[fleet.row_device[row]].model
        assert fleet.device_rows("elsewhere", (0,)) == []


class TestFaults:
    def test_the_past_does_not_change(self) -> None:
        first, second = (FaultSchedule(machines(1024), 5.0) for _ in range(2))
        later = second.starting_between(NOW, NOW + 20 * DAY_MS)
        assert later
        assert first.starting_between(NOW, NOW + 20 * DAY_MS) == later

    def test_faults_come_and_go(self) -> None:
        faults = FaultSchedule(machines(1024), 5.0)
        for fault in faults.starting_between(NOW, NOW + 10 * DAY_MS):
            assert fault.to_at - fault.from_at < FAULT_EPOCH_MS
            assert fault in faults.active_at(fault.from_at)
            assert fault not in faults.active_at(fault.to_at)
            assert fault in faults.ending_between(fault.from_at, fault.to_at)
            assert not faults.node_at(fault.node_index, fault.from_at).is_healthy
            assert faults.first_affecting(fault.node_index, range(16), fault.from_at - 1, fault.from_at) == fault

    def test_a_fault_of_one_gpu_hits_only_who_holds_it(self) -> None:
        faults = FaultSchedule(machines(1024), 5.0)
        of_gpus = [fault for fault in faults.starting_between(NOW, NOW + 10 * DAY_MS) if fault.device != WHOLE_NODE]
        assert of_gpus
        for fault in of_gpus:
            assert fault.affects((fault.device,))
            assert not fault.affects((fault.device + 1,))

    def test_without_faults_nothing_breaks(self) -> None:
        faults = FaultSchedule(machines(1024), 0.0)
        assert faults.starting_between(NOW, NOW + 100 * DAY_MS) == []
        assert faults.next_change(NOW) is None


class TestStories:
    def test_the_same_attempt_has_the_same_story(self) -> None:
        subject = ScenarioInput("uid", 1, 1, Kind.PYTORCH_JOB, 2, 8)
        assert build_scenario(SEED, subject) == build_scenario(SEED, subject)
        assert build_scenario(SEED, subject) != build_scenario(SEED + 1, subject)

    def test_the_same_program_is_tried_again(self) -> None:
        for number in range(20):
            first = build_scenario(SEED, ScenarioInput(f"uid-{number}", 1, 1, Kind.PYTORCH_JOB, 2, 8))
            second = build_scenario(SEED, ScenarioInput(f"uid-{number}", 2, 1, Kind.PYTORCH_JOB, 2, 8))
            assert first != second
            assert first.framework is second.framework
            assert load_parameters(first) == load_parameters(second)
            before, after = TrainingRun(first, 16, 989.0), TrainingRun(second, 16, 989.0)
            assert (before.batch_size, before.tflops, before.step_seconds) == (
                after.batch_size,
                after.tflops,
                after.step_seconds,
            )
            assert before.report(0) != after.report(0)

    def test_annotations_decide(self) -> None:
        told = {
            "stoker.simulate/seconds": "12.5",
            "stoker.simulate/exit-code": "3",
            "stoker.simulate/start-seconds": "2",
            "stoker.simulate/load": "inference",
            "stoker.simulate/framework": "torchtitan",
        }
        found = build_scenario(SEED, ScenarioInput("uid", 1, 1, Kind.JOB, 4, 1, told))
        assert (found.run_seconds, found.exit_code, found.start_seconds) == (12.5, 3, 2.0)
        assert (found.profile, found.framework) == (LoadProfile.INFERENCE, Framework.TORCHTITAN)
        assert found.failing_rank in range(4)

    @pytest.mark.parametrize("bad", ["", "soon", "-1", "nan", "inf", "1e99"])
    def test_an_annotation_that_cannot_be_read_is_not_there(self, bad: str) -> None:
        without = build_scenario(SEED, ScenarioInput("uid", 1, 1, Kind.JOB, 1, 1))
        assert (
            build_scenario(SEED, ScenarioInput("uid", 1, 1, Kind.JOB, 1, 1, {"stoker.simulate/seconds": bad}))
            == without
        )

    def test_what_is_kept_up_does_not_end(self) -> None:
        for kind in (Kind.DEPLOYMENT, Kind.STATEFUL_SET, Kind.AUTHORING):
            assert build_scenario(SEED, ScenarioInput("uid", 1, 1, kind, 1, 1)).run_seconds is None

    def test_a_few_jobs_fail(self) -> None:
        codes = [build_scenario(SEED, ScenarioInput(f"job-{n}", 1, 1, Kind.JOB, 1, 1)).exit_code for n in range(500)]
        assert 15 < sum(code != 0 for code in codes) < 90
        assert 137 in codes


class TestReadings:
    def test_the_same_question_has_the_same_answer(self) -> None:
        fleet = machines()
        work = [held("a", (0, 1, 2), NOW - HOUR)]
        first, second = (sensors(fleet, 9.0).measure_gpus([NOW, NOW + 15_000], work) for _ in range(2))
        for name in SampleMatrix.__struct_fields__:
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))

    def test_many_moments_at_once_are_the_same_as_one_by_one(self) -> None:
        fleet = machines()
        work = [held("a", (0, 1, 2), NOW - HOUR, NOW + 40_000), held("b", (5,), NOW + 30_000)]
        moments = [NOW + 15_000 * step for step in range(8)]
        together = sensors(fleet).measure_gpus(moments, work)
        for row, moment in enumerate(moments):
            alone = sensors(fleet).measure_gpus([moment], work)
            for name in SampleMatrix.__struct_fields__:
                np.testing.assert_allclose(getattr(together, name)[row], getattr(alone, name)[0], rtol=1e-6)

    def test_a_gpu_that_nobody_holds_is_idle_and_cool(self) -> None:
        measured = sensors(machines()).measure_gpus([NOW], [held("a", (0,), NOW - HOUR, load="pretraining")])
        figures = model_columns(machines().row_model)
        assert measured.utilization[0, 1:].max() == 0.0
        assert (measured.power[0, 1:] < figures.idle_watts[1:] * 1.02).all()
        assert measured.temperature[0, 0] > measured.temperature[0, 1:].max() + 10

    def test_temperature_follows_load_with_inertia(self) -> None:
        work = [held("a", (0,), NOW, NOW + HOUR, load="pretraining")]
        moments = [NOW + second * 1000 for second in (300, 330, 360, 420, 600, 3599, 3605, 3660, 4300)]
        measured = sensors(machines()).measure_gpus(moments, work)
        warm = measured.temperature[:, 0]
        assert (np.diff(warm[:5]) > 0).all(), "it warms up over minutes"
        assert abs(warm[6] - warm[5]) < 4, "and is still hot just after the end"
        assert measured.utilization[6, 0] == 0.0
        assert warm[6] > warm[7] > warm[8], "and cools down over minutes"

    def test_two_who_share_a_gpu_add_up(self) -> None:
        one = held("a", (0,), NOW - HOUR, load="pretraining", milli=500)
        other = held("b", (0,), NOW - HOUR, load="pretraining", milli=500)
        fleet = machines()
        alone, both = sensors(fleet).measure_gpus([NOW], [one]), sensors(fleet).measure_gpus([NOW], [one, other])
        assert both.memory_used[0, 0] > alone.memory_used[0, 0]
        assert both.power[0, 0] > alone.power[0, 0]

    def test_nothing_is_read_from_what_is_down(self) -> None:
        fleet = machines(1024)
        faults = FaultSchedule(fleet, 5.0)
        down = next(fault for fault in faults.starting_between(NOW, NOW + 30 * DAY_MS) if fault.device == WHOLE_NODE)
        readings = SensorModel(fleet, faults).sample(down.from_at + 1, [])
        dark = np.isnan(readings.utilization)
        assert dark[fleet.row_node == down.node_index].all()
        assert not dark.all()
        assert {rdma.active_ports for rdma in readings.rdma} == {0, 8}

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(list(LoadProfile)),
                st.integers(0, 63),
                st.integers(-48 * HOUR, HOUR),
                st.integers(0, 48 * HOUR) | st.none(),
                st.sampled_from([100, 500, 1000]),
            ),
            max_size=30,
        ),
        st.integers(0, 400 * DAY_MS),
    )
    def test_readings_stay_inside_what_the_hardware_can_do(
        self, pods: list[tuple[LoadProfile, int, int, int | None, int]], later: int
    ) -> None:
        fleet, now = machines(), NOW + later
        work = [
            held(str(n), (row,), now + since, None if lasts is None else now + since + lasts, load=doing, milli=milli)
            for n, (doing, row, since, lasts, milli) in enumerate(pods)
        ]
        readings = sensors(fleet).sample(now, work)
        figures = model_columns(fleet.row_model)
        assert ((readings.utilization >= 0) & (readings.utilization <= 1)).all()
        assert ((readings.memory_used >= 0) & (readings.memory_used <= readings.memory_total)).all()
        assert ((readings.power > 0) & (readings.power <= figures.tdp_watts)).all()
        assert ((readings.temperature > 15) & (readings.temperature < 105)).all()
        for use in readings.pods:
            assert use.cpu_milli is not None
            assert 0 <= use.cpu_milli <= 8000
            assert 0 <= use.memory_bytes <= 2**34
        assert all(volume.used_bytes <= volume.total_bytes for volume in readings.volumes)

    def test_a_gpu_is_cold_when_it_is_no_longer_followed(self) -> None:
        fleet = machines()
        work = [held("a", (0,), NOW - HOUR, NOW, load="pretraining")]
        after = [NOW + COOLDOWN_MS]
        still, never = sensors(fleet).measure_gpus(after, work), sensors(fleet).measure_gpus(after, [])
        assert still.temperature[0, 0] - never.temperature[0, 0] < 0.5
