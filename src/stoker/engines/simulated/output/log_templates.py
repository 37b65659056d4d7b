"""The words of simulated pods, in the shapes that the programs they stand for print."""

from datetime import datetime
from typing import Any

from stoker.domain.quantity import GIB
from stoker.engines.simulated.devices import GpuModel
from stoker.engines.simulated.dice import mixed
from stoker.engines.simulated.pods import End, Pod
from stoker.engines.simulated.story import OUT_OF_MEMORY, Framework
from stoker.engines.simulated.training import Training

NOTICE = "This pod is simulated: nothing runs, and every line is made up."
EIGHTHS = " ▏▎▍▌▋▊▉"
PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/health")


def beginning(pod: Pod, training: Training, model: GpuModel) -> list[str]:
    """What it prints when it begins."""
    attempt, rank = pod.attempt, pod.place.rank
    lines = [NOTICE] + ([f"+ {attempt.command}"] if attempt.command else [])
    match pod.story.framework:
        case framework if framework.trains:
            gpus = max(1, attempt.gpus)
            world = gpus * attempt.replicas
            lines += [
                f"[rank{rank * gpus + device}] initialised {'rccl' if model.is_amd else 'nccl'}: rank "
                f"{rank * gpus + device} of {world} on {pod.place.node}, device {device} ({model.name})"
                for device in range(min(gpus, 8))
            ]
            lines += _preparation(framework, rank, training)
        case Framework.VLLM:
            lines += [
                f"INFO [api_server.py] vLLM engine: tensor_parallel_size={max(1, attempt.gpus)}, dtype=bfloat16",
                "INFO [model_runner.py] Loading model weights",
                f"INFO [server.py] Started server on http://0.0.0.0:{attempt.service_port or 8000}",
            ]
        case Framework.JUPYTER:
            lines += ["[I ServerApp] Jupyter Server is running at http://localhost:8888/lab"]
        case _:
            lines += [f"rank {rank} of {attempt.replicas} on {pod.place.node}"]
    return lines


def report(pod: Pod, training: Training, model: GpuModel, number: int, at: datetime) -> str:
    """Line `number`, from 0, of what it prints while it works."""
    match pod.story.framework:
        case Framework.MEGATRON:
            return _megatron(training, number, at)
        case Framework.TORCHTITAN:
            return _torchtitan(pod, training, model, number, at)
        case Framework.HUGGINGFACE:
            return _huggingface(training, number)
        case Framework.VLLM:
            return _vllm(pod, number, at)
        case Framework.JUPYTER:
            return f"[I {at:%Y-%m-%d %H:%M:%S} ServerApp] Saving file at /work/notebook.ipynb"
        case Framework.PLAIN:
            return (
                f"{at:%Y-%m-%d %H:%M:%S} INFO part {number + 1} done, {mixed(pod.story.key, number) % 900 + 100} files"
            )


def ending(pod: Pod, end: End) -> list[str]:
    """What it prints last."""
    rank = pod.place.rank
    if end.signal == 15:
        return [f"[rank{rank}] received SIGTERM, ending"]
    if end.exit_code == 0:
        return [f"[rank{rank}] done"]
    if end.exit_code == OUT_OF_MEMORY or end.exit_code is None:
        return []  # who is killed, or loses its machine, says nothing
    if end.signal == 6:
        return [f"[rank{rank}] Watchdog caught collective operation timeout: ran for 600000 milliseconds"]
    return [
        "Traceback (most recent call last):",
        '  File "train.py", line 214, in <module>',
        "    main()",
        "RuntimeError: DataLoader worker (pid 4242) exited unexpectedly (simulated)",
        f"[rank{rank}] exit code {end.exit_code}",
    ]


def _preparation(framework: Framework, rank: int, training: Training) -> list[str]:
    if rank:
        return []
    match framework:
        case Framework.MEGATRON:
            return ["> building train, validation, and test datasets ...", "training ..."]
        case Framework.TORCHTITAN:
            return [f"[titan] Training starts at step 1, with total steps {training.steps}"]
        case _:
            return ["***** Running training *****", f"  Total optimization steps = {training.steps:,}"]


def _megatron(training: Training, number: int, at: datetime) -> str:
    point = training.point(number)
    return (
        f" [{at:%Y-%m-%d %H:%M:%S}] iteration {point.step:8d}/{training.steps:8d} | "
        f"consumed samples: {point.step * training.batch:12d} | "
        f"elapsed time per iteration (ms): {point.seconds_per_step * 1000:.1f} | "
        f"throughput per GPU (TFLOP/s/GPU): {point.tflops:.1f} | learning rate: {point.learning_rate:.6E} | "
        f"global batch size: {training.batch:5d} | lm loss: {point.loss:.6E} | loss scale: 1.0 | "
        f"grad norm: {point.grad_norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def memory_gib(pod: Pod, model: GpuModel) -> float:
    """What it holds of each GPU once it works."""
    return pod.load.memory * model.memory_bytes / GIB


def mfu_percent(tflops: Any, model: GpuModel) -> Any:
    """The part of what the GPU could do, of one report or of a column of them."""
    return 100.0 * tflops / model.tflops


def _torchtitan(pod: Pod, training: Training, model: GpuModel, number: int, at: datetime) -> str:
    point = training.point(number)
    return (
        f"[rank0]:[titan] {at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} - root - INFO - "
        f"step: {point.step:2d}  loss: {point.loss:8.4f}  grad_norm: {point.grad_norm:7.4f}  "
        f"memory: {memory_gib(pod, model):.2f}GiB({100 * pod.load.memory:.2f}%)  "
        f"tps: {round(point.tokens_per_second):,}  tflops: {point.tflops:.2f}  "
        f"mfu: {mfu_percent(point.tflops, model):.2f}%"
    )


def _huggingface(training: Training, number: int) -> str:
    """Behind the progress bar, as it is where both go to one file: only the bar says the step."""
    point = training.point(number)
    return _bar(point.step, training) + str(
        {
            "loss": round(point.loss, 4),
            "grad_norm": round(point.grad_norm, 6),
            "learning_rate": round(point.learning_rate, 9),
            "epoch": round(point.epoch, 2),
        }
    )


def _bar(step: int, training: Training) -> str:
    """As tqdm draws it."""
    seconds = training.step_seconds
    full, part = divmod(80 * step // training.steps, 8)
    drawn = ("█" * full + EIGHTHS[part])[:10]
    pace = f"{1 / seconds:5.2f}it/s" if seconds <= 1 else f"{seconds:5.2f}s/it"
    passed, left = _interval(step * seconds), _interval((training.steps - step) * seconds)
    return f"{100 * step / training.steps:3.0f}%|{drawn:<10}| {step}/{training.steps} [{passed}<{left}, {pace}]"


def _interval(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _vllm(pod: Pod, number: int, at: datetime) -> str:
    chance = mixed(pod.story.key, pod.place.rank, number)
    if number % 4 == 3:
        return (
            f"INFO {at:%m-%d %H:%M:%S} Engine 000: Avg prompt throughput: {chance % 9000 / 2:.1f} tokens/s, "
            f"Avg generation throughput: {chance % 5000 / 3:.1f} tokens/s, Running: {chance % 48} reqs, Waiting: 0 reqs"
        )
    client = f"10.0.{chance % 250}.{chance // 250 % 250}:{30_000 + chance // 7 % 30_000}"
    status = "429 Too Many Requests" if chance % 97 == 0 else "200 OK"
    return f'INFO:     {client} - "POST {PATHS[chance % 3]} HTTP/1.1" {status}'
