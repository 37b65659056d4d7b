"""The simulated fleet: the same seed always gives the same world, and the world keeps to physics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.workload import Kind
from stoker.engines.simulated.devices import MODELS, columns
from stoker.engines.simulated.faults import DAY_MS, EPOCH_MS, NODE, Faults
from stoker.engines.simulated.load import load_of
from stoker.engines.simulated.machine import FEWEST_GPUS, LARGE_GPUS, Machines, fleet_of
from stoker.engines.simulated.readings import COOLING_MS, Held, Measured, Sensors
from stoker.engines.simulated.story import Doing, Framework, Subject, story
from stoker.engines.simulated.training import Training

NOW = 1_790_000_000_000
HOUR = 3_600_000
SEED = 7


def machines(gpus: int = 64, seed: int = SEED) -> Machines:
    return Machines(fleet_of(gpus), seed)


def sensors(fleet: Machines, days: float = 0.0) -> Sensors:
    return Sensors(fleet, Faults(fleet, days))


def held(uid: str, rows: tuple[int, ...], begun_at: int, ended_at: int | None = None, **parts: object) -> Held:
    """A pod that works on these GPUs."""
    asked = {f"stoker.simulate/{key}": str(value) for key, value in parts.items() if key != "milli"}
    told = story(SEED, Subject(uid, 1, 1, Kind.PYTORCH_JOB, 1, len(rows), asked))
    return Held(uid, rows, begun_at, ended_at, load_of(told), 8000, 2**34, int(str(parts.get("milli", 1000))))


class TestMachines:
    def test_the_usual_fleet_has_what_the_largest_example_needs(self) -> None:
        fleet = machines(1024)
        assert fleet.gpus == 1024
        large = [node for node in fleet.nodes if len(node.devices) == LARGE_GPUS]
        assert len(large) == 8
        assert all(node.cpu_milli >= 256_000 and node.memory_bytes >= 2 * 2**40 for node in large)
        assert {device.model for node in fleet.nodes for device in node.devices} == {model.name for model in MODELS}

    @pytest.mark.parametrize("gpus", [FEWEST_GPUS, 64, 100, 1024, 5000])
    def test_a_fleet_has_about_the_gpus_that_were_asked_for(self, gpus: int) -> None:
        assert gpus <= machines(gpus).gpus < gpus + 8

    @pytest.mark.parametrize("nodes", [1, 2, 3, 15, 120])
    def test_a_fleet_has_exactly_the_nodes_that_were_asked_for(self, nodes: int) -> None:
        assert len(Machines(fleet_of(0, nodes), 1).nodes) == nodes

    def test_every_node_says_that_it_is_simulated(self) -> None:
        assert {node.labels["stoker.simulated"] for node in machines().nodes} == {"true"}

    def test_names_addresses_and_devices_are_unlike(self) -> None:
        fleet = machines(5000)
        assert len({node.address for node in fleet.nodes}) == len({node.name for node in fleet.nodes})
        assert len({device.uuid for node in fleet.nodes for device in node.devices}) == fleet.gpus

    def test_rows_are_where_the_columns_say(self) -> None:
        fleet = machines()
        for node in fleet.nodes:
            for row in fleet.rows(node.name, range(len(node.devices))):
                assert fleet.names[fleet.node[row]] == node.name
                assert MODELS[fleet.model[row]].name == node.devices[fleet.device[row]].model
        assert fleet.rows("elsewhere", (0,)) == []


class TestFaults:
    def test_the_past_does_not_change(self) -> None:
        first, second = (Faults(machines(1024), 5.0) for _ in range(2))
        later = second.between(NOW, NOW + 20 * DAY_MS)
        assert later
        assert first.between(NOW, NOW + 20 * DAY_MS) == later

    def test_faults_come_and_go(self) -> None:
        faults = Faults(machines(1024), 5.0)
        for fault in faults.between(NOW, NOW + 10 * DAY_MS):
            assert fault.to_at - fault.from_at < EPOCH_MS
            assert fault in faults.at(fault.from_at)
            assert fault not in faults.at(fault.to_at)
            assert fault in faults.ended(fault.from_at, fault.to_at)
            assert not faults.node(fault.place, fault.from_at).healthy
            assert faults.first(fault.place, range(16), fault.from_at - 1, fault.from_at) == fault

    def test_a_fault_of_one_gpu_hits_only_who_holds_it(self) -> None:
        faults = Faults(machines(1024), 5.0)
        of_gpus = [fault for fault in faults.between(NOW, NOW + 10 * DAY_MS) if fault.device != NODE]
        assert of_gpus
        for fault in of_gpus:
            assert fault.hits((fault.device,))
            assert not fault.hits((fault.device + 1,))

    def test_without_faults_nothing_breaks(self) -> None:
        faults = Faults(machines(1024), 0.0)
        assert faults.between(NOW, NOW + 100 * DAY_MS) == []
        assert faults.next_change(NOW) is None


class TestStories:
    def test_the_same_attempt_has_the_same_story(self) -> None:
        subject = Subject("uid", 1, 1, Kind.PYTORCH_JOB, 2, 8)
        assert story(SEED, subject) == story(SEED, subject)
        assert story(SEED, subject) != story(SEED + 1, subject)

    def test_the_same_program_is_tried_again(self) -> None:
        for number in range(20):
            first = story(SEED, Subject(f"uid-{number}", 1, 1, Kind.PYTORCH_JOB, 2, 8))
            second = story(SEED, Subject(f"uid-{number}", 2, 1, Kind.PYTORCH_JOB, 2, 8))
            assert first != second
            assert first.framework is second.framework
            assert load_of(first) == load_of(second)
            before, after = Training(first, 16, 989.0), Training(second, 16, 989.0)
            assert (before.batch, before.tflops, before.step_seconds) == (after.batch, after.tflops, after.step_seconds)
            assert before.point(0) != after.point(0)

    def test_annotations_decide(self) -> None:
        told = {
            "stoker.simulate/seconds": "12.5",
            "stoker.simulate/exit-code": "3",
            "stoker.simulate/start-seconds": "2",
            "stoker.simulate/load": "inference",
            "stoker.simulate/framework": "torchtitan",
        }
        found = story(SEED, Subject("uid", 1, 1, Kind.JOB, 4, 1, told))
        assert (found.run_seconds, found.exit_code, found.start_seconds) == (12.5, 3, 2.0)
        assert (found.doing, found.framework) == (Doing.INFERENCE, Framework.TORCHTITAN)
        assert found.failing_rank in range(4)

    @pytest.mark.parametrize("bad", ["", "soon", "-1", "nan", "inf", "1e99"])
    def test_an_annotation_that_cannot_be_read_is_not_there(self, bad: str) -> None:
        without = story(SEED, Subject("uid", 1, 1, Kind.JOB, 1, 1))
        assert story(SEED, Subject("uid", 1, 1, Kind.JOB, 1, 1, {"stoker.simulate/seconds": bad})) == without

    def test_what_is_kept_up_does_not_end(self) -> None:
        for kind in (Kind.DEPLOYMENT, Kind.STATEFUL_SET, Kind.AUTHORING):
            assert story(SEED, Subject("uid", 1, 1, kind, 1, 1)).run_seconds is None

    def test_a_few_jobs_fail(self) -> None:
        codes = [story(SEED, Subject(f"job-{n}", 1, 1, Kind.JOB, 1, 1)).exit_code for n in range(500)]
        assert 15 < sum(code != 0 for code in codes) < 90
        assert 137 in codes


class TestReadings:
    def test_the_same_question_has_the_same_answer(self) -> None:
        fleet = machines()
        work = [held("a", (0, 1, 2), NOW - HOUR)]
        first, second = (sensors(fleet, 9.0).measure([NOW, NOW + 15_000], work) for _ in range(2))
        for name in Measured.__struct_fields__:
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))

    def test_many_moments_at_once_are_the_same_as_one_by_one(self) -> None:
        fleet = machines()
        work = [held("a", (0, 1, 2), NOW - HOUR, NOW + 40_000), held("b", (5,), NOW + 30_000)]
        moments = [NOW + 15_000 * step for step in range(8)]
        together = sensors(fleet).measure(moments, work)
        for row, moment in enumerate(moments):
            alone = sensors(fleet).measure([moment], work)
            for name in Measured.__struct_fields__:
                np.testing.assert_allclose(getattr(together, name)[row], getattr(alone, name)[0], rtol=1e-6)

    def test_a_gpu_that_nobody_holds_is_idle_and_cool(self) -> None:
        measured = sensors(machines()).measure([NOW], [held("a", (0,), NOW - HOUR, load="pretraining")])
        figures = columns(machines().model)
        assert measured.utilization[0, 1:].max() == 0.0
        assert (measured.power[0, 1:] < figures.idle[1:] * 1.02).all()
        assert measured.temperature[0, 0] > measured.temperature[0, 1:].max() + 10

    def test_temperature_follows_load_with_inertia(self) -> None:
        work = [held("a", (0,), NOW, NOW + HOUR, load="pretraining")]
        moments = [NOW + second * 1000 for second in (300, 330, 360, 420, 600, 3599, 3605, 3660, 4300)]
        measured = sensors(machines()).measure(moments, work)
        warm = measured.temperature[:, 0]
        assert (np.diff(warm[:5]) > 0).all(), "it warms up over minutes"
        assert abs(warm[6] - warm[5]) < 4, "and is still hot just after the end"
        assert measured.utilization[6, 0] == 0.0
        assert warm[6] > warm[7] > warm[8], "and cools down over minutes"

    def test_two_who_share_a_gpu_add_up(self) -> None:
        one = held("a", (0,), NOW - HOUR, load="pretraining", milli=500)
        other = held("b", (0,), NOW - HOUR, load="pretraining", milli=500)
        fleet = machines()
        alone, both = sensors(fleet).measure([NOW], [one]), sensors(fleet).measure([NOW], [one, other])
        assert both.memory_used[0, 0] > alone.memory_used[0, 0]
        assert both.power[0, 0] > alone.power[0, 0]

    def test_nothing_is_read_from_what_is_down(self) -> None:
        fleet = machines(1024)
        faults = Faults(fleet, 5.0)
        down = next(fault for fault in faults.between(NOW, NOW + 30 * DAY_MS) if fault.device == NODE)
        readings = Sensors(fleet, faults).readings(down.from_at + 1, [])
        dark = np.isnan(readings.utilization)
        assert dark[fleet.node == down.place].all()
        assert not dark.all()
        assert {rdma.active_ports for rdma in readings.rdma} == {0, 8}

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(list(Doing)),
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
        self, pods: list[tuple[Doing, int, int, int | None, int]], later: int
    ) -> None:
        fleet, now = machines(), NOW + later
        work = [
            held(str(n), (row,), now + since, None if lasts is None else now + since + lasts, load=doing, milli=milli)
            for n, (doing, row, since, lasts, milli) in enumerate(pods)
        ]
        readings = sensors(fleet).readings(now, work)
        figures = columns(fleet.model)
        assert ((readings.utilization >= 0) & (readings.utilization <= 1)).all()
        assert ((readings.memory_used >= 0) & (readings.memory_used <= readings.memory_total)).all()
        assert ((readings.power > 0) & (readings.power <= figures.tdp)).all()
        assert ((readings.temperature > 15) & (readings.temperature < 105)).all()
        for use in readings.pods:
            assert 0 <= use.cpu_milli <= 8000
            assert 0 <= use.memory_bytes <= 2**34
        assert all(volume.used_bytes <= volume.total_bytes for volume in readings.volumes)

    def test_a_gpu_is_cold_when_it_is_no_longer_followed(self) -> None:
        fleet = machines()
        work = [held("a", (0,), NOW - HOUR, NOW, load="pretraining")]
        after = [NOW + COOLING_MS]
        still, never = sensors(fleet).measure(after, work), sensors(fleet).measure(after, [])
        assert still.temperature[0, 0] - never.temperature[0, 0] < 0.5
