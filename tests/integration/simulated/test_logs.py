"""What simulated pods print: in time, in order, once, and in shapes that people know."""

import asyncio
import re

import pytest
from tests.integration.simulated.harness import BEGIN, Harness

from stoker.domain.workload.spec import Kind
from stoker.engines.model import LogRef
from stoker.engines.simulated.output.pod_log import SimulatedPodLog

HOUR = {"seconds": 3600, "start-seconds": 0}
SHAPES = {
    "megatron": r"^ \[2026-\d\d-\d\d .*\] iteration +\d+/ *\d+ \| consumed samples: .* lm loss: \d\.\d+E[+-]\d\d \|",
    "torchtitan": r"step: +\d+  loss: +\d+\.\d+  grad_norm: .* tps: [\d,]+  tflops: \d+\.\d+  mfu: \d+\.\d+%$",
    "huggingface": r"^ *\d+%\|.{10}\| \d+/\d+ \[[\d:]+<[\d:]+, +[\d.]+(it/s|s/it)\]"
    r"\{'loss': \d+\.\d+, 'grad_norm': .*'learning_rate': .*'epoch': \d\.\d+\}$",
}


@pytest.mark.parametrize("framework", SHAPES)
def test_training_code_prints_the_lines_of_its_framework(sim: Harness, framework: str) -> None:
    (pod,) = sim.start(kind=Kind.PYTORCH_JOB, says={**HOUR, "framework": framework}).pods
    sim.clock.at += 1_800_000
    reports = [line for line in sim.lines(pod.uid) if re.search(SHAPES[framework], line)]
    assert len(reports) > 50


def test_the_loss_falls(sim: Harness) -> None:
    (pod,) = sim.start(kind=Kind.PYTORCH_JOB, says={**HOUR, "framework": "huggingface"}).pods
    sim.clock.at += 3_000_000
    losses = [float(found[1]) for line in sim.lines(pod.uid) if (found := re.search(r"'loss': ([\d.]+)", line))]
    assert losses[0] > 1.3 * losses[-1]


def test_what_has_fallen_idle_reports_no_more(sim: Harness) -> None:
    says = {"seconds": 8 * 3600, "start-seconds": 0, "framework": "torchtitan", "load": "finetuning"}
    orders = [sim.start(kind=Kind.PYTORCH_JOB, says=says) for _ in range(60)]
    sim.clock.at += 7 * 3_600_000
    idle = [pod for pod in sim.engine.list_pods() if pod.load.idle_after < 7 * 3600]
    assert 0 < len(idle) < len(orders)
    for pod in idle:
        log = SimulatedPodLog(pod)
        last = log.read(log.line_count(sim.clock.at) - 1, 1, sim.clock.at)[0]
        assert "step:" in last.text
        assert last.at <= pod.plan.begins_at + pod.load.idle_after * 1000
        assert log.next_at(sim.clock.at) == pod.plan.begins_at + 8 * 3_600_000, "it still says that it ends"


def test_every_rank_says_who_it_is_and_one_reports(sim: Harness) -> None:
    order = sim.start(kind=Kind.PYTORCH_JOB, pods=2, gpus=8, says={**HOUR, "framework": "megatron"})
    sim.clock.at += 1_800_000
    first, last = (sim.lines(pod.uid) for pod in order.pods)
    assert any(line.startswith("[rank0]") for line in first)
    assert any(line.startswith("[rank8]") for line in last)
    assert not any("iteration" in line for line in first)
    assert any("iteration" in line for line in last)


def test_reading_on_gives_each_line_once(sim: Harness) -> None:
    (pod,) = sim.start(kind=Kind.PYTORCH_JOB, says={**HOUR, "exit-code": 1}).pods
    read: list[str] = []
    position, last = 0, BEGIN
    for _ in range(45):
        sim.clock.at += 97_000
        while lines := sim.run(sim.engine.read_logs(LogRef(pod.uid), position, 7)):
            assert all(last <= line.at <= sim.clock.at for line in lines)
            read += [line.text for line in lines]
            position, last = lines[-1].position, lines[-1].at
    assert read == sim.lines(pod.uid)
    assert read[-1].endswith("exit code 1")
    assert read[0].startswith("This pod is simulated")


def test_a_service_prints_requests(sim: Harness) -> None:
    (pod,) = sim.start(kind=Kind.DEPLOYMENT, says={"start-seconds": 0}).pods
    sim.clock.at += 3_600_000
    assert sum('HTTP/1.1" 200 OK' in line for line in sim.lines(pod.uid)) > 10


def test_a_log_has_an_end_that_can_still_be_read(sim: Harness) -> None:
    (pod,) = sim.start(kind=Kind.DEPLOYMENT, says={"start-seconds": 0}).pods
    sim.clock.at += 60 * 86_400_000
    assert len(sim.lines(pod.uid)) == 5000


def test_who_reads_is_told_of_pods_that_have_printed(sim: Harness) -> None:
    (pod,) = sim.start(kind=Kind.PYTORCH_JOB, says=HOUR).pods

    async def told() -> str:
        async with asyncio.timeout(5):
            async for source in sim.engine.log_activity():
                return source.pod_uid
        return ""

    assert sim.run(told()) == pod.uid
