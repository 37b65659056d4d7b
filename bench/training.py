"""Log lines a second through the parser of training metrics, on one core, beside a bare pass over the same lines."""

import itertools
import time
from collections.abc import Callable, Iterator

from tests.property.telemetry.test_training_parser import HOSTILE

from stoker.telemetry.training_logs import TrainingParser

LINES = 200_000
MEGATRON = (
    " [2025-11-21 12:10:{second:02d}] iteration {step:8d}/   36000 | consumed samples: {samples:12d} |"
    " elapsed time per iteration (ms): 2701.3/2712.7 | throughput per GPU (TFLOP/s/GPU): 210.5/217.3 |"
    " tokens per GPU (tokens/s/GPU): 12130.4/12525.5 | learning rate: 1.587349E-04 | global batch size:   256 |"
    " lm loss: 2.35{second:02d}91E+00 | loss scale: 1.0 | grad norm: 0.132 | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |"
)
TITAN = (
    "[titan] 2025-01-01 10:00:{second:02d},123 - root - INFO - step: {step}  loss:  8.21  grad_norm:  1.25"
    "  memory:  0.97GiB(1.02%)  tps: 1,444  tflops: 300.32  mfu: 23.10%"
)
TRAINER = "{{'loss': 1.2{second:02d}, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.51}}"
ORDINARY = (
    'INFO:     10.0.0.7:53122 - "POST /v1/completions HTTP/1.1" 200 OK',
    "[2025-01-01 10:00:{second:02d},123] [INFO] [engine.py:96] loading shard {step} of 4000 from /data/shards",
    "NCCL INFO Channel {second:02d}/0 : 0[0] -> 1[1] via P2P/IPC/read",
    "2025-01-01 10:00:{second:02d} WARNING worker {step} waited 12.5 ms for the next batch of the data iterator",
    "Traceback (most recent call last):",
    '  File "/opt/train/model.py", line {second}, in forward',
    "saved checkpoint of step {step} to /checkpoints/{step}.pt (12.5 GB in 31.2 s)",
)


def lines(shapes: tuple[str, ...]) -> list[str]:
    return [
        shape.format(second=number % 60, step=number, samples=number * 256)
        for number, shape in zip(range(LINES), itertools.cycle(shapes), strict=False)
    ]


def rate(parse: Callable[[str], object], text: list[str]) -> float:
    begun = time.process_time()
    for line in text:
        parse(line)
    return len(text) / (time.process_time() - begun)


def parser() -> Iterator[str]:
    """log lines a second through the training parser, on one core"""
    mixes = {
        "ordinary lines only": ORDINARY,
        "one line of metrics in eight": (MEGATRON, *ORDINARY),
        "half of the lines metrics": (MEGATRON, ORDINARY[1], TITAN, ORDINARY[3], TRAINER, ORDINARY[5]),
        "Megatron only": (MEGATRON,),
        "TorchTitan only": (TITAN,),
        "HF Trainer only": (TRAINER,),
    }
    for name, shapes in mixes.items():
        text = lines(shapes)
        bare = rate(str.lower, text)
        reader = TrainingParser()
        speed = rate(lambda line, reader=reader: reader.parse(line, 0), text)
        yield f"{name:<32} {speed:10,.0f} lines/s; {speed / bare:.3f} of a bare pass that lowers them"


def hostile() -> Iterator[str]:
    """the slowest of the lines that were made to be slow"""
    worst = 0.0
    for text in HOSTILE:
        begun = time.process_time()
        TrainingParser().parse(text, 0)
        worst = max(worst, time.process_time() - begun)
    yield f"{len(HOSTILE)} lines of up to {max(map(len, HOSTILE)):,} characters, the slowest {worst * 1e3:.1f} ms"


BENCHES = [parser, hostile]
