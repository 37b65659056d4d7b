"""The words of log lines: which only training says, which name a step, and which say nothing about training."""

from stoker.domain.training import Canonical

OUTCOMES = frozenset(
    {
        *(each.value for each in Canonical),
        *("grad_norm", "gnorm", "perplexity", "ppl", "mfu", "tps", "skipped", "acc_1", "acc_5", "wps"),
        *("val_loss", "valid_loss", "validation_loss", "eval_loss", "test_loss", "nll_loss", "train_loss"),
        *("val_acc", "val_accuracy", "validation_accuracy", "test_accuracy", "test_acc"),
        *("tokens_per_second", "tokens_per_second_per_gpu", "tokens_per_second_per_device", "tokens_per_gpu"),
        *("running_avg_samples_per_sec", "eval_samples_per_second", "elapsed_time_per_iteration"),
    }
)
"""What only training says: a line without any of these is about something else."""

STEPS = (
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
"""What a step is called; the first that a line has is believed."""

IGNORED = frozenset(
    {
        *("rank", "local_rank", "global_rank", "world_size", "pid", "gpu", "device", "node", "worker", "v_num", "seed"),
        *("version", "port", "line", "id", "thread", "time", "timestamp", "ts", "at", "lineno", "process", "created"),
        *("max_steps", "total_steps", "max_iters", "num_epochs", "max_epochs", "eta", "size", "host", "level"),
        *("total_flos", "micro_step"),
        *STEPS,
    }
)
QUALIFIERS = frozenset(
    {
        *("train", "training", "lm", "val", "valid", "validation", "eval", "evaluation", "test", "total", "avg"),
        *("average", "mean", "running", "batch", "learning", "grad", "gradient", "iter", "step", "samples", "tokens"),
        *("per", "global", "loss", "nll", "aux", "policy", "value", "reward", "kl", "data", "epoch", "tokens/s"),
    }
)
"""Words that belong to the name behind them."""
