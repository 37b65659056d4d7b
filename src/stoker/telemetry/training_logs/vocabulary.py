"""The vocabulary of training logs: names of metrics, of steps, and names to ignore."""

from stoker.domain.metrics.training import CanonicalMetric

TRAINING_METRICS = frozenset(
    {
        *(metric.value for metric in CanonicalMetric),
        *("grad_norm", "gnorm", "perplexity", "ppl", "mfu", "tps", "skipped", "acc_1", "acc_5", "wps"),
        *("val_loss", "valid_loss", "validation_loss", "eval_loss", "test_loss", "nll_loss", "train_loss"),
        *("val_acc", "val_accuracy", "validation_accuracy", "test_accuracy", "test_acc"),
        *("tokens_per_second", "tokens_per_second_per_gpu", "tokens_per_second_per_device", "tokens_per_gpu"),
        *("running_avg_samples_per_sec", "eval_samples_per_second", "elapsed_time_per_iteration"),
    }
)
"""Metrics that only training has: a line without any of them is ignored."""

STEP_NAMES = (
    *("global_step", "global_steps", "step", "steps", "iteration", "iterations", "iter", "train_step"),
    *(
        "training_step",
        "trainer_global_step",
        "current_step",
        "current_steps",
        "num_updates",
        "update",
        "updates",
        "it",
    ),
)
"""Names of the step, in order of preference."""

IGNORED_NAMES = frozenset(
    {
        *("rank", "local_rank", "global_rank", "world_size", "pid", "gpu", "device", "node", "worker", "v_num", "seed"),
        *("version", "port", "line", "id", "thread", "time", "timestamp", "ts", "at", "lineno", "process", "created"),
        *("max_steps", "total_steps", "max_iters", "num_epochs", "max_epochs", "eta", "size", "host", "level"),
        *("total_flos", "micro_step"),
        *STEP_NAMES,
    }
)
QUALIFIERS = frozenset(
    {
        *("train", "training", "lm", "val", "valid", "validation", "eval", "evaluation", "test", "total", "avg"),
        *("average", "mean", "running", "batch", "learning", "grad", "gradient", "iter", "step", "samples", "tokens"),
        *("per", "global", "loss", "nll", "aux", "policy", "value", "reward", "kl", "data", "epoch", "tokens/s"),
    }
)
"""Words that are part of the name after them."""
