"""The simulated engine keeps the promises of every engine."""

import asyncio

import pytest
from tests.integration.simulated.harness import BEGIN, NODE, Harness, new_order

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Kind, Service

MINUTE = {"seconds": 60, "start-seconds": 2}


class TestLife:
    def test_a_pod_waits_runs_and_ends_by_the_clock(self, sim: Harness) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        assert sim.until(pod.uid, lambda seen: seen.phase is PodPhase.PENDING).started_at is None
        sim.later(2)
        assert sim.until(pod.uid, lambda seen: seen.phase is PodPhase.RUNNING).started_at == BEGIN + 2000
        sim.later(60)
        end = sim.until(pod.uid, lambda seen: seen.phase.is_finished)
        assert (end.phase, end.exit_code, end.ended_at) == (PodPhase.SUCCEEDED, 0, BEGIN + 62_000)

    def test_only_one_rank_of_a_failing_gang_has_the_exit_code(self, sim: Harness) -> None:
        order = sim.start(pods=4, says={"seconds": 10, "exit-code": 3})
        sim.later(10)
        codes = [sim.seen[pod.uid].exit_code for pod in order.pods]
        assert sorted(codes, key=str) == [3, None, None, None]
        sim.run(sim.engine.terminate(order.ref, grace_seconds=30.0))
        sim.later(2)
        assert {sim.seen[pod.uid].phase for pod in order.pods} == {PodPhase.FAILED}

    def test_who_runs_out_of_memory_is_killed(self, sim: Harness) -> None:
        (pod,) = sim.start(says={"seconds": 1, "exit-code": 137}).pods
        sim.later(1)
        end = sim.until(pod.uid, lambda seen: seen.phase.is_finished)
        assert (end.exit_code, end.signal) == (137, 9)
        assert end.message.startswith("It needed more memory than the ")

    def test_a_service_that_crashes_comes_back_later_and_later(self, sim: Harness) -> None:
        (pod,) = sim.start(kind=Kind.DEPLOYMENT, says={"seconds": 10, "exit-code": 1}).pods
        sim.later(10)
        assert sim.until(pod.uid, lambda seen: seen.restarts == 1).ready is False
        sim.later(1)
        assert sim.until(pod.uid, lambda seen: seen.ready).restarts == 1
        sim.later(10 + 1)
        assert sim.until(pod.uid, lambda seen: seen.restarts == 2).ready is False
        assert sim.seen[pod.uid].phase is PodPhase.RUNNING

    def test_faster_than_real_time(self, sim: Harness) -> None:
        sim.open(speed=60.0)
        (pod,) = sim.start(says={"seconds": 3600}).pods
        sim.later(60)
        assert sim.until(pod.uid, lambda seen: seen.phase.is_finished).ended_at == BEGIN + 60_000


class TestOrders:
    def test_a_stop_ends_what_runs_and_what_has_not_begun_never_does(self, sim: Harness) -> None:
        order = sim.start(says=MINUTE)
        sim.later(5)
        late = sim.start(says=MINUTE)
        for each in (order, late):
            assert sim.run(sim.engine.pods_of(each.ref)) == {each.pods[0].uid}
            sim.run(sim.engine.terminate(each.ref, grace_seconds=30.0))
        sim.later(2)
        assert sim.seen[order.pods[0].uid].signal == 15
        never = sim.seen[late.pods[0].uid]
        assert (never.phase, never.started_at, never.exit_code) == (PodPhase.FAILED, None, None)

    def test_a_service_is_replaced_one_by_one(self, sim: Harness) -> None:
        says = {"start-seconds": 1}
        old = sim.start(kind=Kind.DEPLOYMENT, pods=3, says=says)
        sim.later(5)
        new = sim.start(workload=old.ref.uid, kind=Kind.DEPLOYMENT, revision=2, pods=3, says=says)
        for _ in range(40):
            sim.later(0.5)
            ready = sum(seen.ready for seen in sim.seen.values())
            assert ready >= 2
            for before, after in zip(old.pods, new.pods, strict=True):
                both = (sim.seen[before.uid], sim.seen[after.uid])
                assert not (both[0].phase is PodPhase.RUNNING and both[1].phase is PodPhase.RUNNING), "one place"
        assert all(sim.seen[pod.uid].ready for pod in new.pods)
        assert all(sim.seen[pod.uid].phase.is_finished for pod in old.pods)


class TestReports:
    def test_many_pods_are_told_together(self, sim: Harness) -> None:
        orders = [new_order(says={"seconds": 5}) for _ in range(500)]

        async def main() -> None:
            await asyncio.gather(*(sim.engine.apply(order) for order in orders))

        sim.open()
        sim.run(main())
        sim.later(5)
        assert all(sim.seen[order.pods[0].uid].phase.is_finished for order in orders)
        assert sim.reports < 10

    def test_it_says_that_it_is_simulated(self, sim: Harness) -> None:
        assert sim.engine.capabilities.simulated
        assert sim.engine.name == "simulated"

    def test_a_fault_takes_the_node_and_its_pods_and_passes(self, sim: Harness) -> None:
        sim.open(fault_days=10.0)
        fault = next(each for each in sim.engine.faults.starting_between(BEGIN, BEGIN + 10**10) if each.device == -1)
        name = sim.engine.fleet.names[fault.node_index]
        sim.clock.at = fault.from_at - 1000
        sim.open()
        (pod,) = sim.start(node=name, says={"seconds": 10**6}).pods
        sim.until(pod.uid, lambda seen: seen.phase is PodPhase.RUNNING)
        sim.later(1)
        end = sim.until(pod.uid, lambda seen: seen.phase is PodPhase.LOST)
        assert end.ended_at == fault.from_at
        assert sim.nodes[name] is False
        sim.clock.at = fault.to_at
        sim.later(0)
        assert sim.nodes[name] is True


class TestCrash:
    def test_pods_go_on_while_nobody_looks(self, sim: Harness) -> None:
        (pod,) = sim.start(says={"seconds": 100}).pods
        (longer,) = sim.start(says={"seconds": 10_000}).pods
        stopped = sim.start(says={"seconds": 10_000})
        sim.later(1)
        sim.run(sim.engine.terminate(stopped.ref, grace_seconds=30.0))
        sim.clock.at += 3_600_000
        sim.open()
        assert sim.until(pod.uid, lambda seen: seen.phase.is_finished).ended_at == BEGIN + 100_000
        assert sim.seen[longer.uid].phase is PodPhase.RUNNING
        assert sim.seen[stopped.pods[0].uid].signal == 15

    def test_a_line_that_was_cut_off_is_dropped(self, sim: Harness) -> None:
        (pod,) = sim.start(says={"seconds": 100}).pods
        path = sim.folder / "journal.jsonl"
        path.write_bytes(path.read_bytes() + b'{"type":"apply","attempt":{"workload_uid":"x')
        sim.open()
        (other,) = sim.start(says={"seconds": 100}).pods
        sim.open()
        sim.later(1)
        assert {pod.uid, other.uid} == set(sim.seen)

    def test_what_was_forgotten_leaves_the_journal(self, sim: Harness) -> None:
        path = sim.folder / "journal.jsonl"
        for _ in range(20):
            order = sim.start(says={"seconds": 1})
            sim.clock.at += 1000
            sim.run(sim.engine.release(order.ref))
        assert path.stat().st_size > 1000
        sim.open()
        assert path.stat().st_size == 0
        assert sim.seen == {}

    def test_a_fault_while_nobody_looked_has_taken_its_pods(self, sim: Harness) -> None:
        sim.open(fault_days=10.0)
        fault = sim.engine.faults.starting_between(BEGIN, BEGIN + 10**10)[0]
        sim.clock.at = fault.from_at - 5000
        sim.open()
        name = sim.engine.fleet.names[fault.node_index]
        order = sim.start(node=name, gpus=8, says={"seconds": 10**6})
        sim.clock.at = fault.from_at + 5000
        sim.open()
        assert sim.until(order.pods[0].uid, lambda seen: seen.phase.is_finished).phase is PodPhase.LOST


class TestInside:
    def test_a_shell_says_that_it_is_simulated(self, sim: Harness) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        sim.later(3)
        said, code = sim.run(run_command(sim, pod.uid, ["sh"], b"hostname\nnvidia-smi\nmake coffee\nhelp\nexit 4\n"))
        assert "simulated" in said
        assert "job-abcde-0" in said
        assert "AMD Instinct MI300X OAM" in said
        assert "make: not found" in said
        assert "It only knows echo, env, hostname, nvidia-smi" in said
        assert code == 4

    @pytest.mark.parametrize(
        ("command", "said", "code"),
        [(["echo", "hi"], "hi\n", 0), (["sh", "-c", "echo 'a b'"], "a b\n", 0), (["reboot"], "reboot: not found", 127)],
    )
    def test_one_command(self, sim: Harness, command: list[str], said: str, code: int) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        sim.later(3)
        found = sim.run(run_command(sim, pod.uid, command, b""))
        assert found[0].startswith(said)
        assert found[1] == code

    def test_nothing_is_run_in_a_pod_that_does_not_run(self, sim: Harness) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        with pytest.raises(StokerError) as refused:
            sim.run(sim.engine.execute(pod.uid, ["sh"], tty=True, columns=80, rows=24))
        assert refused.value.code is ErrorCode.CONFLICT

    def test_a_service_has_a_name_that_nothing_answers_to(self, sim: Harness) -> None:
        order = sim.start(kind=Kind.DEPLOYMENT, service=Service(8080, 8080), says={"start-seconds": 1})
        assert sim.run(sim.engine.service_address(order.ref.uid)) == ""
        sim.later(1)
        assert sim.run(sim.engine.service_address(order.ref.uid)) == "job-abcde.simulated.invalid:8080"

    def test_readings_follow_who_holds_what(self, sim: Harness) -> None:
        sim.start(gpus=4, says={"seconds": 10_000, "load": "pretraining"})
        sim.clock.at += 600_000
        readings = sim.run(sim.engine.collect())
        first = [readings.nodes[node] == NODE for node in readings.node[:8]]
        assert all(first)
        assert readings.memory_used[:4].min() > 10 * readings.memory_used[4:8].max()
        assert len(readings.pods) == 1


async def run_command(sim: Harness, uid: str, command: list[str], typed: bytes) -> tuple[str, int]:
    terminal = await sim.engine.execute(uid, command, tty=False, columns=80, rows=24)
    await terminal.write(typed)
    await terminal.close_stdin()
    said = b""
    while more := await terminal.read():
        said += more
    code = await terminal.exit_code()
    await terminal.close()
    return said.decode(), code
