"""The points that the demo writes for the past are those that the parser finds in the lines of such a pod."""

from collections import defaultdict

import numpy as np
import pytest
from tests.integration.simulated.harness import Harness

from stoker.demo.backfill.training import build_points
from stoker.domain.workload.spec import Kind
from stoker.engines.simulated.fleet.gpu_models import MI300X
from stoker.engines.simulated.output.pod_log import SimulatedPodLog
from stoker.telemetry.training_logs import TrainingParser

HOUR = {"seconds": 3600, "start-seconds": 0}
AS_PRINTED = 0.01
"""Lines round."""


def test_memory_and_mfu_are_those_of_the_gpus(sim: Harness) -> None:
    sim.start(kind=Kind.PYTORCH_JOB, says={**HOUR, "framework": "torchtitan"})
    sim.clock.at += 1_800_000
    (pod,) = sim.engine.list_pods()
    log, parser = SimulatedPodLog(pod, MI300X), TrainingParser()
    said = [each.metrics for line in log.read(0, 10_000, sim.clock.at) for each in parser.parse(line.text, line.at)]
    assert said
    assert [each["memory"] for each in said] == pytest.approx([192 * pod.load.memory] * len(said), abs=AS_PRINTED)
    assert [each["mfu"] for each in said] == pytest.approx([each["tflops"] / 13.07 for each in said], abs=AS_PRINTED)


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "huggingface"])
def test_a_report_is_the_same_as_a_line_and_as_points(sim: Harness, framework: str) -> None:
    sim.start(kind=Kind.PYTORCH_JOB, says={**HOUR, "framework": framework})
    sim.clock.at += 1_800_000
    (pod,) = sim.engine.list_pods()
    log, parser = SimulatedPodLog(pod), TrainingParser()
    said: defaultdict[str, list[tuple[int, int | None, float]]] = defaultdict(list)
    for line in log.read(0, 10_000, sim.clock.at):
        for measured in parser.parse(line.text, line.at):
            for name, value in measured.metrics.items():
                said[name].append((measured.at, measured.step, value))
    found = build_points(pod, log, np.arange(log.report_count(sim.clock.at)))
    assert sorted(found.names) == sorted(said)
    for place, name in enumerate(found.names):
        mine = found.metric == place
        ats, steps, values = zip(*said[name], strict=True)
        assert found.at[mine].tolist() == list(ats)
        assert found.step[mine].tolist() == list(steps)
        assert found.value[mine].tolist() == pytest.approx(values, rel=AS_PRINTED, abs=AS_PRINTED)
