"""The workloads that the demo's tenants submit, and how long they keep those that do not end by themselves."""

import random

from msgspec import Struct

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.spec import Kind, Service, Spec
from stoker.engines.simulated.fleet.gpu_models import GIB
from stoker.engines.simulated.scenario import Framework
from stoker.engines.simulated.seeded_random import seeded_rng, weighted_choice
from stoker.services.workloads.validation import CreateWorkloadInput

CPUS_PER_GPU = 16
"""CPUs per GPU, few enough that GPUs run out first."""
MEMORY_PER_GPU = 160 * GIB
NORMAL_PRIORITY, HIGH_PRIORITY = 80, 125


class WorkloadTemplate(Struct, frozen=True, kw_only=True):
    """A workload that is submitted repeatedly; `gpus` is per replica."""

    name: str
    kind: Kind
    gpus: int
    replicas: tuple[int, ...] = (1,)
    framework: Framework
    project: str
    image: str
    command: str
    preemptible_probability: float = 0.0
    max_retry: int = 0


PRETRAIN_7B = WorkloadTemplate(
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
PRETRAIN_70B = WorkloadTemplate(
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
TITAN_13B = WorkloadTemplate(
    name="titan-13b",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    replicas=(2, 2, 4),
    framework=Framework.TORCHTITAN,
    project="architecture-search",
    image="harbor.example.com/ai/torchtitan:0.2",
    command="torchrun -m torchtitan.train --job.config_file 13b.toml",
    preemptible_probability=0.3,
)
FINETUNE = WorkloadTemplate(
    name="finetune-chat",
    kind=Kind.PYTORCH_JOB,
    gpus=8,
    framework=Framework.HUGGINGFACE,
    project="assistant",
    image="harbor.example.com/ai/pytorch:2.1",
    command="accelerate launch sft.py --dataset chat",
    preemptible_probability=0.2,
)
LORA = WorkloadTemplate(
    name="lora-adapter",
    kind=Kind.PYTORCH_JOB,
    gpus=4,
    framework=Framework.HUGGINGFACE,
    project="assistant",
    image="harbor.example.com/ai/pytorch:2.1",
    command="python lora.py --rank 16",
    preemptible_probability=0.3,
)
VISION = WorkloadTemplate(
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
SWEEP = WorkloadTemplate(
    name="sweep",
    kind=Kind.JOB,
    gpus=1,
    replicas=(4, 8),
    framework=Framework.PLAIN,
    project="perception",
    image="harbor.example.com/ai/pytorch:2.0",
    command="python sweep.py",
    preemptible_probability=0.5,
)
SPEECH = WorkloadTemplate(
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
EVALUATION = WorkloadTemplate(
    name="evaluate",
    kind=Kind.JOB,
    gpus=2,
    framework=Framework.PLAIN,
    project="evaluation",
    image="harbor.example.com/ai/eval:0.9",
    command="python -m lm_eval --tasks mmlu",
)
CHAT_SERVICE = WorkloadTemplate(
    name="chat-api",
    kind=Kind.DEPLOYMENT,
    gpus=4,
    replicas=(2, 3, 4),
    framework=Framework.VLLM,
    project="assistant",
    image="harbor.example.com/serving/vllm:0.6",
    command="vllm serve chat-70b --tensor-parallel-size 4",
)
EMBED_SERVICE = WorkloadTemplate(
    name="embeddings",
    kind=Kind.DEPLOYMENT,
    gpus=1,
    replicas=(2, 4, 6),
    framework=Framework.VLLM,
    project="search",
    image="harbor.example.com/serving/vllm:0.6",
    command="vllm serve embed-small",
)
CACHE_SERVICE = WorkloadTemplate(
    name="feature-store",
    kind=Kind.STATEFUL_SET,
    gpus=1,
    replicas=(2, 3),
    framework=Framework.VLLM,
    project="search",
    image="harbor.example.com/serving/features:3.1",
    command="feature-server",
)
NOTEBOOK = WorkloadTemplate(
    name="notebook",
    kind=Kind.AUTHORING,
    gpus=1,
    framework=Framework.JUPYTER,
    project="exploration",
    image="harbor.example.com/ai/jupyter:2024.1",
    command="",
)


def draw_workload(
    rolled: random.Random, work: WorkloadTemplate, workspace: str, user: str, most_gpus: int
) -> CreateWorkloadInput:
    """One submission of this template with at most this many GPUs."""
    fitting = [count for count in work.replicas if count * work.gpus <= most_gpus] or [1]
    replicas = rolled.choice(fitting)
    gpus = min(work.gpus, most_gpus)
    service = Service(8000, 8000) if work.kind.uses_rolling_update else None
    return CreateWorkloadInput(
        name=f"{work.name}-{rolled.choice('abcdefghkmnprstuvw')}{rolled.randrange(100):02d}",
        kind=work.kind,
        workspace=workspace,
        description=f"Simulated {work.project} work",
        priority=HIGH_PRIORITY if rolled.random() < 0.12 else NORMAL_PRIORITY,
        preemptible=rolled.random() < work.preemptible_probability,
        max_retry=work.max_retry,
        spec=Spec(
            image=work.image,
            entry_point=work.command,
            resources=Resources(gpus * MILLI, gpus * CPUS_PER_GPU * MILLI, gpus * MEMORY_PER_GPU),
            replicas=replicas,
            env={"NCCL_DEBUG": "WARN"} if work.framework.is_training else {},
            labels={
                "team": workspace,
                "project": work.project,
                "framework": work.framework.value,
            },
            annotations={
                "owner": user,
                "cost-center": f"cc-{1000 + sum(map(ord, workspace)) % 9000}",
                "stage": weighted_choice(rolled, (("dev", 0.5), ("test", 0.2), ("prod", 0.3))),
            },
            service=service,
            shown_cpu=str(gpus * CPUS_PER_GPU),
            shown_gpu=str(gpus),
            shown_memory=f"{gpus * MEMORY_PER_GPU // GIB}Gi",
        ),
    )


def lifetime_ms(uid: str, kind: Kind) -> int:
    """How long a workload that does not end by itself is kept."""
    rolled = seeded_rng("kept", uid)
    hours = rolled.uniform(1.0, 9.0) if kind is Kind.AUTHORING else rolled.uniform(16.0, 120.0)
    return round(hours * HOUR_MS)
