"""What the people of the demo submit, and how long they keep what does not end by itself."""

import random

from msgspec import Struct

from stoker.domain.clock import HOUR_MS
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Service, Spec
from stoker.engines.simulated.devices import GIB
from stoker.engines.simulated.dice import choice, dice
from stoker.engines.simulated.story import Framework
from stoker.services.submission import NewWorkload

CORES = 16
"""CPUs beside each GPU: few enough that GPUs run out first."""
MEMORY = 160 * GIB
NORMAL, HIGH = 80, 125


class Work(Struct, frozen=True, kw_only=True):
    """Something that people submit again and again. `gpus` is for each replica."""

    name: str
    kind: Kind
    gpus: int
    replicas: tuple[int, ...] = (1,)
    framework: Framework
    project: str
    image: str
    command: str
    preemptible: float = 0.0
    max_retry: int = 0


PRETRAIN_7B = Work(
    name="pretrain-7b",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    replicas=(2, 4, 4, 8),
    framework=Framework.MEGATRON,
    project="base-models",
    image="harbor.example.com/ai/megatron:24.09",
    command="torchrun pretrain_gpt.py --config configs/7b.yaml",
    max_retry=3,
)
PRETRAIN_70B = Work(
    name="pretrain-70b",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    replicas=(8, 12, 16),
    framework=Framework.MEGATRON,
    project="base-models",
    image="harbor.example.com/ai/megatron:24.09",
    command="torchrun pretrain_gpt.py --config configs/70b.yaml",
    max_retry=5,
)
TITAN_13B = Work(
    name="titan-13b",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    replicas=(2, 2, 4),
    framework=Framework.TORCHTITAN,
    project="architecture-search",
    image="harbor.example.com/ai/torchtitan:0.2",
    command="torchrun -m torchtitan.train --job.config_file 13b.toml",
    preemptible=0.3,
)
FINETUNE = Work(
    name="finetune-chat",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    framework=Framework.HUGGINGFACE,
    project="assistant",
    image="harbor.example.com/ai/pytorch:2.1",
    command="accelerate launch sft.py --dataset chat",
    preemptible=0.2,
)
LORA = Work(
    name="lora-adapter",
    kind=Kind.PYTORCH_JOB,
    gpus=4,
    framework=Framework.HUGGINGFACE,
    project="assistant",
    image="harbor.example.com/ai/pytorch:2.1",
    command="python lora.py --rank 16",
    preemptible=0.3,
)
VISION = Work(
    name="detector-train",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    replicas=(1, 1, 2),
    framework=Framework.TORCHTITAN,
    project="perception",
    image="harbor.example.com/ai/pytorch:2.0",
    command="torchrun train_detector.py",
    max_retry=1,
)
SWEEP = Work(
    name="sweep",
    kind=Kind.JOB,
    gpus=1,
    replicas=(4, 8),
    framework=Framework.PLAIN,
    project="perception",
    image="harbor.example.com/ai/pytorch:2.0",
    command="python sweep.py",
    preemptible=0.5,
)
SPEECH = Work(
    name="asr-train",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    replicas=(1, 2),
    framework=Framework.HUGGINGFACE,
    project="speech",
    image="harbor.example.com/ai/speech:1.4",
    command="torchrun train_asr.py",
    max_retry=1,
)
EVALUATION = Work(
    name="evaluate",
    kind=Kind.JOB,
    gpus=2,
    framework=Framework.PLAIN,
    project="evaluation",
    image="harbor.example.com/ai/eval:0.9",
    command="python -m lm_eval --tasks mmlu",
)
CHAT_SERVICE = Work(
    name="chat-api",
    kind=Kind.DEPLOYMENT,
    gpus=4,
    replicas=(2, 3, 4),
    framework=Framework.VLLM,
    project="assistant",
    image="harbor.example.com/serving/vllm:0.6",
    command="vllm serve chat-70b --tensor-parallel-size 4",
)
EMBED_SERVICE = Work(
    name="embeddings",
    kind=Kind.DEPLOYMENT,
    gpus=1,
    replicas=(2, 4, 6),
    framework=Framework.VLLM,
    project="search",
    image="harbor.example.com/serving/vllm:0.6",
    command="vllm serve embed-small",
)
CACHE_SERVICE = Work(
    name="feature-store",
    kind=Kind.STATEFUL_SET,
    gpus=1,
    replicas=(2, 3),
    framework=Framework.VLLM,
    project="search",
    image="harbor.example.com/serving/features:3.1",
    command="feature-server",
)
NOTEBOOK = Work(
    name="notebook",
    kind=Kind.AUTHORING,
    gpus=1,
    framework=Framework.JUPYTER,
    project="exploration",
    image="harbor.example.com/ai/jupyter:2024.1",
    command="",
)


def drawn(rolled: random.Random, work: Work, workspace: str, user: str, most_gpus: int) -> NewWorkload:
    """One submission of this work, no larger than so many GPUs."""
    fitting = [count for count in work.replicas if count * work.gpus <= most_gpus] or [1]
    replicas = rolled.choice(fitting)
    gpus = min(work.gpus, most_gpus)
    service = Service(8000, 8000) if work.kind.rolls else None
    return NewWorkload(
        name=f"{work.name}-{rolled.choice('abcdefghkmnprstuvw')}{rolled.randrange(100):02d}",
        kind=work.kind,
        workspace=workspace,
        description=f"Simulated {work.project} work",
        priority=HIGH if rolled.random() < 0.12 else NORMAL,
        preemptible=rolled.random() < work.preemptible,
        max_retry=work.max_retry,
        spec=Spec(
            image=work.image,
            entry_point=work.command,
            resources=Resources(gpus * MILLI, gpus * CORES * MILLI, gpus * MEMORY),
            replicas=replicas,
            env={"NCCL_DEBUG": "WARN"} if work.framework.trains else {},
            labels={
                "team": workspace,
                "project": work.project,
                "framework": work.framework.value,
            },
            annotations={
                "owner": user,
                "cost-center": f"cc-{1000 + sum(map(ord, workspace)) % 9000}",
                "stage": choice(rolled, (("dev", 0.5), ("test", 0.2), ("prod", 0.3))),
            },
            service=service,
            shown_cpu=str(gpus * CORES),
            shown_gpu=str(gpus),
            shown_memory=f"{gpus * MEMORY // GIB}Gi",
        ),
    )


def kept_ms(uid: str, kind: Kind) -> int:
    """How long people keep a workload that runs until somebody stops it."""
    rolled = dice("kept", uid)
    hours = rolled.uniform(1.0, 9.0) if kind is Kind.AUTHORING else rolled.uniform(16.0, 120.0)
    return round(hours * HOUR_MS)
