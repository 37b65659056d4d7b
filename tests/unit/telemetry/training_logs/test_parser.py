"""Lines as frameworks print them, and what each of them says."""

import pytest

from stoker.telemetry.training_logs import TrainingParser

PRIMUS = (
    "[20251121 12:10:29][rank-31/32][INFO ] [--------trainer.py:2488] :  iteration    12125/   36000 |"
    " consumed samples:      3104000 | elapsed time per iteration (ms): 2701.3/2712.7 |"
    " hip mem usage/free/total/usage_ratio: 227.35GB/28.63GB/255.98GB/88.81% |"
    " throughput per GPU (TFLOP/s/GPU): 210.5/217.3 | tokens per GPU (tokens/s/GPU): 12130.4/12525.5 |"
    " learning rate: 1.587349E-04 | lm loss: 2.352391E+00 | loss scale: 1.0 | grad norm: 0.132 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
COLOURED = (
    "\x1b[32mINFO\x1b[0m [\x1b[36mrank-7/8\x1b[0m]\x1b[34m\x1b[1m[DEBUG]    \x1b[0m[utils.py:425] :"
    " [2026-09-23 15:34:04.269468] iteration        4/      20 | consumed samples:  64 |"
    " compute per GPU (TFLOP/s/GPU): 496.3 (avg 496.1) | tokens/s/GPU inst/harmonic mean: 9640.7/9629.8 |"
    " lm loss: 1.101008E+01 | rank-3 rocm max mem usage/usage_ratio: 180.22GiB/93.88% |\x1b[0m"
)

CORPUS: dict[str, tuple[str, int | None, dict[str, float]]] = {
    "Megatron": (
        " [2024-05-20 10:00:00] iteration       10/     500 | consumed samples:         1280 |"
        " elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 250.3 |"
        " learning rate: 1.500000E-06 | global batch size:   128 | lm loss: 1.089000E+01 | loss scale: 1.0 |"
        " grad norm: 12.345 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        10,
        {
            "consumed_samples": 1280,
            "elapsed_time_per_iteration": 1234.5,
            "tflops": 250.3,
            "learning_rate": 1.5e-06,
            "global_batch_size": 128,
            "loss": 10.89,
            "loss_scale": 1,
            "grad_norm": 12.345,
            "number_of_skipped_iterations": 0,
            "number_of_nan_iterations": 0,
        },
    ),
    "Megatron before it knew TFLOPs": (
        " iteration      100/  500000 | consumed samples: 3200 | elapsed time per iteration (ms): 980.1 |"
        " learning rate: 1.0E-04 | global batch size: 32 | lm loss: 6.1E+00 |"
        " samples per second: 32.65 | TFLOPs: 41.2 |",
        100,
        {
            "consumed_samples": 3200,
            "elapsed_time_per_iteration": 980.1,
            "learning_rate": 1e-4,
            "global_batch_size": 32,
            "loss": 6.1,
            "samples_per_second": 32.65,
            "tflops": 41.2,
        },
    ),
    "Megatron's validation": (
        " validation loss at iteration 1000 | lm loss value: 2.345000E+00 | lm loss PPL: 1.043000E+01 |",
        1000,
        {"validation_loss": 2.345, "validation_perplexity": 10.43},
    ),
    "Primus, instants and averages": (
        PRIMUS,
        12125,
        {
            "consumed_samples": 3104000,
            "elapsed_time_per_iteration": 2701.3,
            "elapsed_time_per_iteration_avg": 2712.7,
            "hip_mem_usage": 227.35,
            "hip_mem_free": 28.63,
            "hip_mem_total": 255.98,
            "hip_mem_usage_ratio": 88.81,
            "tflops": 210.5,
            "tflops_avg": 217.3,
            "tokens_per_gpu": 12130.4,
            "tokens_per_gpu_avg": 12525.5,
            "learning_rate": 1.587349e-4,
            "loss": 2.352391,
            "loss_scale": 1,
            "grad_norm": 0.132,
            "number_of_skipped_iterations": 0,
            "number_of_nan_iterations": 0,
        },
    ),
    "Primus today, in colours": (
        COLOURED,
        4,
        {
            "consumed_samples": 64,
            "tflops": 496.3,
            "tflops_avg": 496.1,
            "tokens_per_gpu": 9640.7,
            "tokens_per_gpu_avg": 9629.8,
            "loss": 11.01008,
            "rocm_max_mem_usage": 180.22,
            "rocm_max_mem_usage_ratio": 93.88,
        },
    ),
    "NeMo": (
        "Training epoch 0, iteration 10/100 | lr: 1e-05 | global_batch_size: 8 | reduced_train_loss: 11.03 |"
        " train_step_timing in s: 1.2 | consumed_samples: 88",
        10,
        {"lr": 1e-5, "global_batch_size": 8, "loss": 11.03, "train_step_timing": 1.2, "consumed_samples": 88},
    ),
    "Nanotron, in thousands": (
        "04/23/2025 18:11:03 [INFO|DP=0|PP=0|TP=0]: iteration: 10 / 100 | consumed_tokens: 1.28M |"
        " tokens_per_sec: 12.5K | lm_loss: 11.0 | lr: 0.0003 | model_tflops_per_gpu: 12",
        10,
        {
            "consumed_tokens": 1_280_000,
            "tokens_per_sec": 12_500,
            "loss": 11,
            "lr": 0.0003,
            "tflops": 12,
        },
    ),
    "fairseq": (
        "2024-01-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 1000 loss=9.8, nll_loss=9.1, ppl=550.2,"
        " wps=12345.6, num_updates=100, lr=1.25e-05, gnorm=2.1",
        100,
        {"loss": 9.8, "nll_loss": 9.1, "ppl": 550.2, "wps": 12345.6, "lr": 1.25e-5, "gnorm": 2.1},
    ),
    "Detectron": (
        "[01/01 10:00:00 d2.utils.events]:  eta: 1:00:00  iter: 19  total_loss: 3.2  loss_cls: 1.1  time: 0.5"
        "  lr: 0.001",
        19,
        {"loss": 3.2, "loss_cls": 1.1, "lr": 0.001},
    ),
    "MMEngine": (
        "2024/01/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][ 50/1000]  lr: 1.0e-02  loss: 1.25",
        None,
        {"lr": 0.01, "loss": 1.25},
    ),
    "TensorFlow's estimator": ("INFO:tensorflow:loss = 0.5, step = 100 (1.2 sec)", 100, {"loss": 0.5}),
    "diffusers": (
        "Steps:  10%|█         | 100/1000 [01:00<09:00,  1.66it/s, lr=1e-5, step_loss=0.125]",
        100,
        {"lr": 1e-5, "loss": 0.125},
    ),
    "LLaMA-Factory": (
        '{"current_steps": 10, "total_steps": 100, "loss": 1.25, "lr": 5e-05, "epoch": 0.1, "percentage": 10.0}',
        10,
        {"loss": 1.25, "lr": 5e-5, "epoch": 0.1, "percentage": 10},
    ),
    "TorchTitan": (
        "[titan] 2025-01-01 10:00:00,123 - root - INFO - step:  1  loss:  8.2131  grad_norm:  1.2503  "
        "memory:  0.97GiB(1.02%)  tps: 1,444  tflops: 300.32  mfu: 23.10%",
        1,
        {"loss": 8.2131, "grad_norm": 1.2503, "memory": 0.97, "tps": 1444, "tflops": 300.32, "mfu": 23.1},
    ),
    "TorchTitan in colours behind a rank": (
        "[rank0]:\x1b[31mstep: 20\x1b[0m  \x1b[32mloss:  7.1\x1b[0m  \x1b[33mmemory: 60.1GiB(63.2%)\x1b[0m"
        "  \x1b[34mtps: 12,345,678\x1b[0m  \x1b[35mmfu: 41.2%\x1b[0m",
        20,
        {"loss": 7.1, "memory": 60.1, "tps": 12345678, "mfu": 41.2},
    ),
    "DeepSpeed's progress": (
        "[2024-01-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[9.5e-06, 9.5e-06],"
        " mom=[(0.9, 0.999), (0.9, 0.999)]",
        10,
        {"skipped": 0, "lr": 9.5e-6},
    ),
    "DeepSpeed's timer": (
        "[2023-01-01 10:00:00,123] [INFO] [timer.py:215:stop] epoch=0/micro_step=10/global_step=12,"
        " RunningAvgSamplesPerSec=42.1, CurrSamplesPerSec=43.2, MemAllocated=5.5GB, MaxMemAllocated=10.6GB",
        12,
        {
            "epoch": 0,
            "running_avg_samples_per_sec": 42.1,
            "samples_per_second": 43.2,
            "mem_allocated": 5.5,
            "max_mem_allocated": 10.6,
        },
    ),
    "DeepSpeed's pipeline": (
        "steps: 10 loss: 10.2345 iter time (s): 0.512 samples/sec: 62.451",
        10,
        {"loss": 10.2345, "iter_time": 0.512, "samples_per_second": 62.451},
    ),
    "HF Trainer": (
        "{'loss': 0.5123, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.51}",
        None,
        {"loss": 0.5123, "grad_norm": 1.25, "learning_rate": 4.9e-5, "epoch": 0.51},
    ),
    "HF Trainer with words for numbers": (
        "{'loss': '0.5123', 'grad_norm': 'nan', 'learning_rate': '4.9e-05', 'epoch': '0.51'}",
        None,
        {"loss": 0.5123, "learning_rate": 4.9e-5, "epoch": 0.51},
    ),
    "HF Trainer with numpy and tensors": (
        "{'loss': np.float64(0.5), 'reward': tensor(0.25, device='cuda:0'), 'epoch': 1.5}",
        None,
        {"loss": 0.5, "reward": 0.25, "epoch": 1.5},
    ),
    "HF Trainer behind its progress bar": (
        "  5%|▌         | 500/10000 [03:21<1:03:10,  2.51it/s]{'loss': 1.2, 'learning_rate': 4.75e-05, 'epoch': 0.15}",
        500,
        {"loss": 1.2, "learning_rate": 4.75e-5, "epoch": 0.15},
    ),
    "HF Trainer's evaluation": (
        "{'eval_loss': 0.3, 'eval_accuracy': 0.91, 'eval_samples_per_second': 400.1, 'epoch': 1.0}",
        None,
        {"eval_loss": 0.3, "accuracy": 0.91, "eval_samples_per_second": 400.1, "epoch": 1},
    ),
    "HF Trainer's summary, whose loss is the mean of the run": (
        "{'train_runtime': 120.1, 'train_samples_per_second': 83.2, 'train_loss': 0.45, 'epoch': 3.0}",
        None,
        {"train_runtime": 120.1, "samples_per_second": 83.2, "train_loss": 0.45, "epoch": 3},
    ),
    "Lightning": (
        "Epoch 3:  45%|████▌     | 450/1000 [00:30<00:37, 14.80it/s, v_num=1, train_loss=0.123, train_acc=0.95]",
        3450,
        {"loss": 0.123, "accuracy": 0.95},
    ),
    "Lightning with rich": (
        "Epoch 1/9 ━━━━━━━━━━━━━━ 938/938 0:00:10 • 0:00:00 89.60it/s v_num: 0.000 train_loss: 0.25",
        1876,
        {"loss": 0.25},
    ),
    "tqdm with a postfix": (
        "Training:  10%|█         | 10/100 [00:05<00:45,  2.00it/s, loss=1.23, lr=0.0001]",
        10,
        {"loss": 1.23, "lr": 0.0001},
    ),
    "tqdm with the loss before it": (
        "loss: 0.532:  45%|████▌     | 45/100 [00:10<00:12,  4.5it/s]",
        45,
        {"loss": 0.532},
    ),
    "MaxText": (
        "completed step: 10, seconds: 1.234, TFLOP/s/device: 100.2, Tokens/s/device: 5000.1, total_weights: 65536,"
        " loss: 10.875",
        10,
        {
            "seconds": 1.234,
            "tflops": 100.2,
            "tokens_per_second_per_device": 5000.1,
            "total_weights": 65536,
            "loss": 10.875,
        },
    ),
    "MaxDiffusion": (
        "completed step: 7, seconds: 0.912, TFLOP/s/device: 152.4, loss: 0.125",
        7,
        {"seconds": 0.912, "tflops": 152.4, "loss": 0.125},
    ),
    "MaxText's evaluation": (
        "eval metrics after step: 99, loss=9.4, total_weights=10",
        99,
        {"eval_loss": 9.4, "total_weights": 10},
    ),
    "JSON": ('{"step": 5, "loss": 0.25, "lr": 1e-4, "name": "x", "ok": true}', 5, {"loss": 0.25, "lr": 1e-4}),
    "JSON that is nested and has a prefix": (
        '2025-01-01 10:00:00 INFO {"iteration": 7, "train": {"loss": 0.5, "samples/s": 12}}',
        7,
        {"loss": 0.5, "samples_per_second": 12},
    ),
    "JSON of a logger around a line": (
        '{"ts": 1735725600, "level": "info", "msg": "step: 10 loss: 2.5 tps: 1,444"}',
        10,
        {"loss": 2.5, "tps": 1444},
    ),
    "key=value": ("step=100 loss=0.5 lr=1e-4 acc=0.9", 100, {"loss": 0.5, "lr": 1e-4, "accuracy": 0.9}),
    "key=value behind a logger": (
        "2025-01-01T10:00:00Z INFO trainer.py:88 rank=3 iter=12 train/loss=0.5 throughput=81.5",
        12,
        {"loss": 0.5, "throughput": 81.5},
    ),
    "words and brackets": ("Epoch [1/5], Step [100/600], Loss: 0.5123", 100, {"loss": 0.5123}),
    "words without signs": ("step 100: train loss 2.1, val loss 2.3", 100, {"loss": 2.1, "val_loss": 2.3}),
    "an epoch without a step": ("Train Epoch: 1 [6400/60000 (11%)]\tLoss: 0.52", None, {"epoch": 1, "loss": 0.52}),
    "two spellings of a loss in one line": (
        "step: 3, loss: 1.5, lm_loss: 1.25",
        3,
        {"loss": 1.5, "lm_loss": 1.25},
    ),
    "scientific notation": ("iter=3 loss=-1.5E-03 grad_norm=+2e2", 3, {"loss": -0.0015, "grad_norm": 200}),
    "what is not a number is no point": ("step=5 loss=nan acc=0.1 grad_norm=inf ppl=1e999", 5, {"accuracy": 0.1}),
}

LOOK_ALIKES = [
    "",
    "Loss: 0.5",
    "loading step",
    "GET /train?step=5&loss=3 HTTP/1.1",
    "python train.py --step=5 --loss=0.5 --accuracy=0.9",
    "ping step: 2, packet loss: 5",
    "step 3 of 4: 12% packet loss=0%",
    "Overflow detected. Skipping step. Attempted loss scale: 65536, reducing to 32768",
    "config: steps=1000 lr=0.001 batch_size=32 epochs=3",
    '{"step": 5, "loss": "mse"}',
    '{"step": 5, "loss": NaN}',
    '{"max_steps": 1000, "loss": 0.5}',
    '{"step": true, "loss": 0.5}',
    "{'loss': 0.5}",
    "{'epoch': 0.5, 'loss': nan}",
    "successfully saved checkpoint from iteration     100 to /checkpoints",
    "[Rank 0] (after 10 iterations) memory (MB) | allocated: 136133.7 | max allocated: 137672.0 | reserved: 1.0",
    "iteration 10/ 500 | nothing to say |",
    "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 12.3it/s]",
    "Downloading: 45%|████▌     | 450/1000 [00:30<00:37, 14.80MB/s]",
    "Step 4/10 : RUN pip install loss==0.5",
    "DeprecationWarning: `epoch` is deprecated since 1.2, use step=None; accuracy may suffer",
    'File "/opt/train/step.py", line 12, in loss',
    "the iterator lost accuracy at 10:30:45",
]


@pytest.mark.parametrize("name", CORPUS)
def test_a_line_says_what_its_framework_meant(name: str) -> None:
    text, step, metrics = CORPUS[name]
    (found,) = TrainingParser().parse(text, 1234)
    assert (found.at, found.step, dict(found.metrics)) == (1234, step, metrics)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_line_that_only_looks_similar_says_nothing(text: str) -> None:
    assert not TrainingParser().parse(text, 0)


def test_keras_counts_its_steps_from_the_epoch_on_the_line_before() -> None:
    parser = TrainingParser()
    assert not parser.parse("Epoch 2/5", 0)
    line = "1875/1875 [==============================] - 3s 1ms/step - loss: 0.2959 - accuracy: 0.9134 - val_loss: 0.2"
    (old,) = parser.parse(line, 0)
    assert (old.step, dict(old.metrics)) == (3750, {"loss": 0.2959, "accuracy": 0.9134, "val_loss": 0.2})
    (new,) = parser.parse("10/1875 ━━━━━━━━━━━━━━━━━━━━ 5:39 181ms/step - accuracy: 0.1250 - loss: 2.3", 0)
    assert (new.step, dict(new.metrics)) == (1885, {"accuracy": 0.125, "loss": 2.3})


@pytest.mark.parametrize(("heading", "step"), [("Epoch 0/5", 10), ("Epoch 999999999/999999999", None)])
def test_a_step_that_no_run_can_have_is_not_made_up(heading: str, step: int | None) -> None:
    parser = TrainingParser()
    assert not parser.parse(heading, 0)
    (found,) = parser.parse("10/999999999999 [==>.......] - 3s 1ms/step - loss: 0.5", 0)
    assert (found.step, dict(found.metrics)) == (step, {"loss": 0.5})


def test_a_line_that_was_drawn_over_says_each_new_thing_once() -> None:
    drawn = "\r".join(
        f"Epoch 0:  {n}%|#         | {n}/100 [00:0{n}<00:09,  2.00it/s, loss={loss}]"
        for n, loss in ((1, 2.5), (2, 2.5), (3, 2.25))
    )
    found = TrainingParser().parse(drawn, 0)
    assert [(each.step, each.metrics["loss"]) for each in found] == [(1, 2.5), (3, 2.25)]


def test_a_step_is_a_whole_number_and_taken_whole() -> None:
    assert [each.step for each in TrainingParser().parse("step=123456789012345 loss=0.5", 0)] == [123456789012345]
    for step in ("12345678901234567890", "1.5", "0.25"):
        assert not TrainingParser().parse(f"step={step} loss=0.5", 0)


def test_a_bar_that_comes_in_several_lines_says_each_new_thing_once() -> None:
    parser = TrainingParser()
    bar = "\rEpoch 0:  1%|#         | {}/100 [00:01<00:09,  2.00it/s, loss={}]"
    lines = [bar.format(1, 2.5) + bar.format(2, 2.5), bar.format(3, 2.5) + bar.format(4, 2.25), bar.format(5, 2.25)]
    found = [(at, each.step, each.metrics["loss"]) for at, line in enumerate(lines) for each in parser.parse(line, at)]
    assert found == [(0, 1, 2.5), (1, 4, 2.25)]


def test_of_what_all_ranks_of_a_pod_print_of_a_step_one_counts() -> None:
    parser = TrainingParser()
    said = [(rank, step) for step in (1, 2) for rank in (3, 0, 1)]
    found = [parser.parse(f"[rank{rank}]:step: {step}  loss: {rank}.5  tps: 10", 0) for rank, step in said]
    assert [(each.step, each.metrics["loss"]) for line in found for each in line] == [(1, 3.5), (2, 3.5)]


def test_a_rank_that_begins_again_is_heard_again() -> None:
    parser = TrainingParser()
    assert [len(parser.parse("[rank0]:step: 1  loss: 0.5", 0)) for _ in range(2)] == [1, 1]


def test_a_line_gives_no_more_metrics_than_it_may() -> None:
    many = " ".join(f"metric{number}={number}" for number in range(500))
    (found,) = TrainingParser().parse(f"step=1 loss=0.5 {many}", 0)
    assert len(found.metrics) == 64
