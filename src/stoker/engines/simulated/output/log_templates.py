"""Log templates of simulated pods, in the formats of the programs they imitate."""

from datetime import datetime
from typing import Any

from stoker.domain.cluster.quantity import GIB
from stoker.engines.simulated.fleet.gpu_models import GpuModel
from stoker.engines.simulated.output.training_run import TrainingRun
from stoker.engines.simulated.pods.pod import SimulatedPod, Termination
from stoker.engines.simulated.scenario import OOM_EXIT_CODE, Framework
from stoker.engines.simulated.seeded_random import hash_seed

SIMULATED_NOTICE = "This pod is simulated: nothing runs, and every line is made up."
TQDM_EIGHTHS = " ▏▎▍▌▋▊▉"
API_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/health")


def startup_lines(pod: SimulatedPod, training: TrainingRun, model: GpuModel) -> list[str]:
    """The lines that are printed at the start."""
    attempt, rank = pod.attempt, pod.plan.rank
    lines = [SIMULATED_NOTICE] + ([f"+ {attempt.command}"] if attempt.command else [])
    match pod.scenario.framework:
        case framework if framework.is_training:
            gpus = max(1, attempt.gpus)
            world = gpus * attempt.replicas
            lines += [
                f"[rank{rank * gpus + device}] initialised {'rccl' if model.is_amd else 'nccl'}: rank "
                f"{rank * gpus + device} of {world} on {pod.plan.node}, device {device} ({model.name})"
                for device in range(min(gpus, 8))
            ]
            lines += _setup_lines(framework, rank, training)
        case Framework.VLLM:
            lines += [
                f"INFO [api_server.py] vLLM engine: tensor_parallel_size={max(1, attempt.gpus)}, dtype=bfloat16",
                "INFO [model_runner.py] Loading model weights",
                f"INFO [server.py] Started server on http://0.0.0.0:{attempt.service_port or 8000}",
            ]
        case Framework.JUPYTER:
            lines += ["[I ServerApp] Jupyter Server is running at http://localhost:8888/lab"]
        case _:
            lines += [f"rank {rank} of {attempt.replicas} on {pod.plan.node}"]
    return lines


def report_line(pod: SimulatedPod, training: TrainingRun, model: GpuModel, number: int, at: datetime) -> str:
    """Line `number`, from 0, of the lines that are printed while the pod works."""
    match pod.scenario.framework:
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
            files = hash_seed(pod.scenario.seed, number) % 900 + 100
            return f"{at:%Y-%m-%d %H:%M:%S} INFO part {number + 1} done, {files} files"


def exit_lines(pod: SimulatedPod, end: Termination) -> list[str]:
    """The last lines."""
    rank = pod.plan.rank
    if end.signal == 15:
        return [f"[rank{rank}] received SIGTERM, ending"]
    if end.exit_code == 0:
        return [f"[rank{rank}] done"]
    if end.exit_code == OOM_EXIT_CODE or end.exit_code is None:
        return []  # a pod that is killed or loses its node prints nothing
    if end.signal == 6:
        return [f"[rank{rank}] Watchdog caught collective operation timeout: ran for 600000 milliseconds"]
    return [
        "Traceback (most recent call last):",
        '  File "train.py", line 214, in <module>',
        "    main()",
        "RuntimeError: DataLoader worker (pid 4242) exited unexpectedly (simulated)",
        f"[rank{rank}] exit code {end.exit_code}",
    ]


def _setup_lines(framework: Framework, rank: int, training: TrainingRun) -> list[str]:
    if rank:
        return []
    match framework:
        case Framework.MEGATRON:
            return ["> building train, validation, and test datasets ...", "training ..."]
        case Framework.TORCHTITAN:
            return [f"[titan] Training starts at step 1, with total steps {training.steps}"]
        case _:
            return ["***** Running training *****", f"  Total optimization steps = {training.steps:,}"]


def _megatron(training: TrainingRun, number: int, at: datetime) -> str:
    point = training.report(number)
    return (
        f" [{at:%Y-%m-%d %H:%M:%S}] iteration {point.step:8d}/{training.steps:8d} | "
        f"consumed samples: {point.step * training.batch_size:12d} | "
        f"elapsed time per iteration (ms): {point.seconds_per_step * 1000:.1f} | "
        f"throughput per GPU (TFLOP/s/GPU): {point.tflops:.1f} | learning rate: {point.learning_rate:.6E} | "
        f"global batch size: {training.batch_size:5d} | lm loss: {point.loss:.6E} | loss scale: 1.0 | "
        f"grad norm: {point.grad_norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def memory_gib(pod: SimulatedPod, model: GpuModel) -> float:
    """The GPU memory that it uses while it works."""
    return pod.load.memory * model.memory_bytes / GIB


def mfu_percent(tflops: Any, model: GpuModel) -> Any:
    """The model FLOPS utilization of one report or of an array of reports."""
    return 100.0 * tflops / model.tflops


def _torchtitan(pod: SimulatedPod, training: TrainingRun, model: GpuModel, number: int, at: datetime) -> str:
    point = training.report(number)
    return (
        f"[rank0]:[titan] {at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} - root - INFO - "
        f"step: {point.step:2d}  loss: {point.loss:8.4f}  grad_norm: {point.grad_norm:7.4f}  "
        f"memory: {memory_gib(pod, model):.2f}GiB({100 * pod.load.memory:.2f}%)  "
        f"tps: {round(point.tokens_per_second):,}  tflops: {point.tflops:.2f}  "
        f"mfu: {mfu_percent(point.tflops, model):.2f}%"
    )


def _huggingface(training: TrainingRun, number: int) -> str:
    """A metrics line after a progress bar in the same file: only the bar has the step."""
    point = training.report(number)
    return _progress_bar(point.step, training) + str(
        {
            "loss": round(point.loss, 4),
            "grad_norm": round(point.grad_norm, 6),
            "learning_rate": round(point.learning_rate, 9),
            "epoch": round(point.epoch, 2),
        }
    )


def _progress_bar(step: int, training: TrainingRun) -> str:
    """A progress bar as tqdm draws it."""
    seconds = training.step_seconds
    full, part = divmod(80 * step // training.steps, 8)
    drawn = ("█" * full + TQDM_EIGHTHS[part])[:10]
    pace = f"{1 / seconds:5.2f}it/s" if seconds <= 1 else f"{seconds:5.2f}s/it"
    passed, left = _format_interval(step * seconds), _format_interval((training.steps - step) * seconds)
    return f"{100 * step / training.steps:3.0f}%|{drawn:<10}| {step}/{training.steps} [{passed}<{left}, {pace}]"


def _format_interval(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _vllm(pod: SimulatedPod, number: int, at: datetime) -> str:
    chance = hash_seed(pod.scenario.seed, pod.plan.rank, number)
    if number % 4 == 3:
        return (
            f"INFO {at:%m-%d %H:%M:%S} Engine 000: Avg prompt throughput: {chance % 9000 / 2:.1f} tokens/s, "
            f"Avg generation throughput: {chance % 5000 / 3:.1f} tokens/s, Running: {chance % 48} reqs, Waiting: 0 reqs"
        )
    client = f"10.0.{chance % 250}.{chance // 250 % 250}:{30_000 + chance // 7 % 30_000}"
    status = "429 Too Many Requests" if chance % 97 == 0 else "200 OK"
    return f'INFO:     {client} - "POST {API_PATHS[chance % 3]} HTTP/1.1" {status}'
