"""The simulated engine keeps the promises of every engine."""

import asyncio

import pytest
from tests.engine.simulated.lab import BEGIN, NODE, Lab, new_order

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload import Kind, PodPhase, Service
from stoker.engines.base import Everything

MINUTE = {"seconds": 60, "start-seconds": 2}


class TestLife:
    def test_a_pod_waits_runs_and_ends_by_the_clock(self, sim: Lab) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        assert sim.until(pod.uid, lambda seen: seen.phase is PodPhase.PENDING).started_at is None
        sim.later(2)
        assert sim.until(pod.uid, lambda seen: seen.phase is PodPhase.RUNNING).started_at == BEGIN + 2000
        sim.later(60)
        end = sim.until(pod.uid, lambda seen: seen.phase.ended)
        assert (end.phase, end.exit_code, end.ended_at) == (PodPhase.SUCCEEDED, 0, BEGIN + 62_000)

    def test_only_one_rank_of_a_failing_gang_has_the_exit_code(self, sim: Lab) -> None:
        order = sim.start(pods=4, says={"seconds": 10, "exit-code": 3})
        sim.later(10)
        codes = [sim.seen[pod.uid].exit_code for pod in order.pods]
        assert sorted(codes, key=str) == [3, None, None, None]
        sim.run(sim.engine.remove(order.workload_uid, 1, 30.0))
        sim.later(2)
        assert {sim.seen[pod.uid].phase for pod in order.pods} == {PodPhase.FAILED}

    def test_who_runs_out_of_memory_is_killed(self, sim: Lab) -> None:
        (pod,) = sim.start(says={"seconds": 1, "exit-code": 137}).pods
        sim.later(1)
        end = sim.until(pod.uid, lambda seen: seen.phase.ended)
        assert (end.exit_code, end.signal) == (137, 9)
        assert end.message.startswith("It needed more memory than the ")

    def test_a_service_that_crashes_comes_back_later_and_later(self, sim: Lab) -> None:
        (pod,) = sim.start(kind=Kind.DEPLOYMENT, says={"seconds": 10, "exit-code": 1}).pods
        sim.later(10)
        assert sim.until(pod.uid, lambda seen: seen.restarts == 1).ready is False
        sim.later(1)
        assert sim.until(pod.uid, lambda seen: seen.ready).restarts == 1
        sim.later(10 + 1)
        assert sim.until(pod.uid, lambda seen: seen.restarts == 2).ready is False
        assert sim.seen[pod.uid].phase is PodPhase.RUNNING

    def test_faster_than_real_time(self, sim: Lab) -> None:
        sim.open(speed=60.0)
        (pod,) = sim.start(says={"seconds": 3600}).pods
        sim.later(60)
        assert sim.until(pod.uid, lambda seen: seen.phase.ended).ended_at == BEGIN + 60_000


class TestOrders:
    def test_the_same_order_again_changes_nothing(self, sim: Lab) -> None:
        order = sim.start(says=MINUTE, pods=2)
        sim.later(5)
        before = dict(sim.seen)
        sim.run(sim.engine.apply(order))
        sim.later(0)
        assert sim.seen == before

    def test_a_stop_ends_what_runs_and_what_has_not_begun_never_does(self, sim: Lab) -> None:
        order = sim.start(says=MINUTE)
        sim.later(5)
        late = sim.start(says=MINUTE)
        for each in (order, late):
            assert sim.run(sim.engine.remove(each.workload_uid, 1, 30.0)) == {each.pods[0].uid}
        sim.later(2)
        assert sim.seen[order.pods[0].uid].signal == 15
        never = sim.seen[late.pods[0].uid]
        assert (never.phase, never.started_at, never.exit_code) == (PodPhase.FAILED, None, None)

    def test_a_second_stop_does_not_put_the_end_off(self, sim: Lab) -> None:
        order = sim.start(says={"seconds": 60})
        sim.later(1)
        sim.run(sim.engine.remove(order.workload_uid, 1, 30.0))
        sim.later(0.05)
        sim.run(sim.engine.remove(order.workload_uid, 1, 30.0))
        sim.later(1.5)
        assert sim.until(order.pods[0].uid, lambda seen: seen.phase.ended).ended_at

    def test_forgotten_pods_are_gone_and_living_ones_are_not_forgotten(self, sim: Lab) -> None:
        order = sim.start(says={"seconds": 5})
        (pod,) = order.pods
        sim.later(1)
        sim.run(sim.engine.forget(order.workload_uid, 1))
        assert sim.seen[pod.uid].phase is PodPhase.RUNNING
        sim.later(5)
        sim.run(sim.engine.forget(order.workload_uid, 1))
        sim.until_gone(pod.uid)
        with pytest.raises(StokerError) as refused:
            sim.lines(pod.uid)
        assert refused.value.code is ErrorCode.NOT_FOUND

    def test_an_older_revision_is_not_applied(self, sim: Lab) -> None:
        new = sim.start(revision=2, says=MINUTE)
        sim.run(sim.engine.apply(new_order(workload=new.workload_uid, revision=1, says=MINUTE)))
        sim.later(5)
        assert list(sim.seen) == [new.pods[0].uid]

    def test_a_gang_is_replaced_all_at_once(self, sim: Lab) -> None:
        old = sim.start(pods=2, says=MINUTE)
        sim.later(5)
        new = sim.start(workload=old.workload_uid, revision=2, pods=2, says=MINUTE)
        sim.later(5)
        assert all(sim.seen[pod.uid].phase.ended for pod in old.pods)
        assert all(sim.seen[pod.uid].phase is PodPhase.RUNNING for pod in new.pods)
        for pod in new.pods:
            assert min(sim.seen[other.uid].ended_at or 0 for other in old.pods) <= (sim.seen[pod.uid].started_at or 0)

    def test_a_service_is_replaced_one_by_one(self, sim: Lab) -> None:
        says = {"start-seconds": 1}
        old = sim.start(kind=Kind.DEPLOYMENT, pods=3, says=says)
        sim.later(5)
        new = sim.start(workload=old.workload_uid, kind=Kind.DEPLOYMENT, revision=2, pods=3, says=says)
        for _ in range(40):
            sim.later(0.5)
            ready = sum(seen.ready for seen in sim.seen.values())
            assert ready >= 2
            for before, after in zip(old.pods, new.pods, strict=True):
                both = (sim.seen[before.uid], sim.seen[after.uid])
                assert not (both[0].phase is PodPhase.RUNNING and both[1].phase is PodPhase.RUNNING), "one place"
        assert all(sim.seen[pod.uid].ready for pod in new.pods)
        assert all(sim.seen[pod.uid].phase.ended for pod in old.pods)

    def test_a_service_is_scaled_without_touching_who_stays(self, sim: Lab) -> None:
        old = sim.start(kind=Kind.DEPLOYMENT, pods=2, says={"start-seconds": 0})
        sim.later(1)
        uids = tuple(pod.uid for pod in old.pods)
        more = new_order(workload=old.workload_uid, kind=Kind.DEPLOYMENT, uids=(*uids, "third"))
        sim.run(sim.engine.apply(more))
        sim.later(60)
        assert all(sim.seen[uid].ready for uid in (*uids, "third"))
        sim.run(sim.engine.apply(new_order(workload=old.workload_uid, kind=Kind.DEPLOYMENT, uids=uids[:1])))
        sim.later(10)
        assert [sim.seen[uid].ready for uid in (*uids, "third")] == [True, False, False]


class TestReports:
    def test_everything_comes_first(self, sim: Lab) -> None:
        order = sim.start(says=MINUTE)

        async def first() -> object:
            async for report in sim.engine.observe():
                return report
            return None

        report = sim.run(first())
        assert isinstance(report, Everything)
        assert len(report.nodes) == len(sim.engine.machines.nodes)
        assert [pod.uid for pod in report.pods] == [order.pods[0].uid]

    def test_many_pods_are_told_together(self, sim: Lab) -> None:
        orders = [new_order(says={"seconds": 5}) for _ in range(500)]

        async def main() -> None:
            await asyncio.gather(*(sim.engine.apply(order) for order in orders))

        sim.open()
        sim.run(main())
        sim.later(5)
        assert all(sim.seen[order.pods[0].uid].phase.ended for order in orders)
        assert sim.reports < 10

    def test_it_says_that_it_is_simulated(self, sim: Lab) -> None:
        assert sim.engine.capabilities.simulated
        assert sim.engine.name == "simulated"

    def test_a_fault_takes_the_node_and_its_pods_and_passes(self, sim: Lab) -> None:
        sim.open(fault_days=10.0)
        fault = next(each for each in sim.engine.faults.between(BEGIN, BEGIN + 10**10) if each.device == -1)
        name = sim.engine.machines.names[fault.place]
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
    def test_pods_go_on_while_nobody_looks(self, sim: Lab) -> None:
        (pod,) = sim.start(says={"seconds": 100}).pods
        (longer,) = sim.start(says={"seconds": 10_000}).pods
        stopped = sim.start(says={"seconds": 10_000})
        sim.later(1)
        sim.run(sim.engine.remove(stopped.workload_uid, 1, 30.0))
        sim.clock.at += 3_600_000
        sim.open()
        assert sim.until(pod.uid, lambda seen: seen.phase.ended).ended_at == BEGIN + 100_000
        assert sim.seen[longer.uid].phase is PodPhase.RUNNING
        assert sim.seen[stopped.pods[0].uid].signal == 15

    def test_a_line_that_was_cut_off_is_dropped(self, sim: Lab) -> None:
        (pod,) = sim.start(says={"seconds": 100}).pods
        path = sim.folder / "journal.jsonl"
        path.write_bytes(path.read_bytes() + b'{"type":"apply","attempt":{"workload_uid":"x')
        sim.open()
        (other,) = sim.start(says={"seconds": 100}).pods
        sim.open()
        sim.later(1)
        assert {pod.uid, other.uid} == set(sim.seen)

    def test_what_was_forgotten_leaves_the_journal(self, sim: Lab) -> None:
        path = sim.folder / "journal.jsonl"
        for _ in range(20):
            order = sim.start(says={"seconds": 1})
            sim.clock.at += 1000
            sim.run(sim.engine.forget(order.workload_uid, 1))
        assert path.stat().st_size > 1000
        sim.open()
        assert path.stat().st_size == 0
        assert sim.seen == {}

    def test_a_fault_while_nobody_looked_has_taken_its_pods(self, sim: Lab) -> None:
        sim.open(fault_days=10.0)
        fault = sim.engine.faults.between(BEGIN, BEGIN + 10**10)[0]
        sim.clock.at = fault.from_at - 5000
        sim.open()
        name = sim.engine.machines.names[fault.place]
        order = sim.start(node=name, gpus=8, says={"seconds": 10**6})
        sim.clock.at = fault.from_at + 5000
        sim.open()
        assert sim.until(order.pods[0].uid, lambda seen: seen.phase.ended).phase is PodPhase.LOST


class TestInside:
    def test_a_shell_says_that_it_is_simulated(self, sim: Lab) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        sim.later(3)
        said, code = sim.run(converse(sim, pod.uid, ["sh"], b"hostname\nnvidia-smi\nmake coffee\nhelp\nexit 4\n"))
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
    def test_one_command(self, sim: Lab, command: list[str], said: str, code: int) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        sim.later(3)
        found = sim.run(converse(sim, pod.uid, command, b""))
        assert found[0].startswith(said)
        assert found[1] == code

    def test_nothing_is_run_in_a_pod_that_does_not_run(self, sim: Lab) -> None:
        (pod,) = sim.start(says=MINUTE).pods
        with pytest.raises(StokerError) as refused:
            sim.run(sim.engine.execute(pod.uid, ["sh"], tty=True, columns=80, rows=24))
        assert refused.value.code is ErrorCode.STATE_FORBIDS

    def test_a_service_has_a_name_that_nothing_answers_to(self, sim: Lab) -> None:
        order = sim.start(kind=Kind.DEPLOYMENT, service=Service(8080, 8080), says={"start-seconds": 1})
        assert sim.run(sim.engine.service_address(order.workload_uid)) == ""
        sim.later(1)
        assert sim.run(sim.engine.service_address(order.workload_uid)) == "job-abcde.simulated.invalid:8080"

    def test_readings_follow_who_holds_what(self, sim: Lab) -> None:
        sim.start(gpus=4, says={"seconds": 10_000, "load": "pretraining"})
        sim.clock.at += 600_000
        readings = sim.run(sim.engine.readings())
        first = [readings.nodes[node] == NODE for node in readings.node[:8]]
        assert all(first)
        assert readings.memory_used[:4].min() > 10 * readings.memory_used[4:8].max()
        assert len(readings.pods) == 1


async def converse(sim: Lab, uid: str, command: list[str], typed: bytes) -> tuple[str, int]:
    terminal = await sim.engine.execute(uid, command, tty=False, columns=80, rows=24)
    await terminal.write(typed)
    await terminal.end_input()
    said = b""
    while more := await terminal.read():
        said += more
    code = await terminal.exit_code()
    await terminal.close()
    return said.decode(), code
