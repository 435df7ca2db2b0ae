"""Lines of single trainers, made as their sources format them: a step and its seconds in, one line out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Sample:
    """What one trainer prints. `every`: steps between two of its records; `first`: its first step."""

    line: Callable[[int, float], str]
    kind: str
    head: str = ""
    every: int = 10
    first: int = 10

    def steps(self, count: int) -> list[int]:
        return [self.first + n * self.every for n in range(count)]

    def log(self, times: list[float]) -> str:
        lines = (self.line(step, time) + "\n" for step, time in zip(self.steps(len(times)), times, strict=True))
        return self.head + "".join(lines)


def megatron(step: int, time: float) -> str:
    return (
        f" [2026-01-02 03:04:{step % 60:02d}] iteration {step:8d}/{500:8d} | consumed samples: {step * 64:12d} |"
        f" elapsed time per iteration (ms): {time * 1000:.1f} | throughput per GPU (TFLOP/s/GPU): 123.4 |"
        " learning rate: 1.500000E-04 | global batch size:    64 | lm loss: 9.123456E+00 | loss scale: 1.0 |"
        " grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def bigscience(step: int, time: float) -> str:
    return (
        f" iteration {step:8d}/{500:8d} | consumed samples: {step * 64:12d} |"
        f" elapsed time per iteration (s): {time:.2f} | learning rate: 1.500E-04 | lm loss: 9.123456E+00 |"
    )


def throughput(step: int, time: float) -> str:
    return (
        f"[2026-01-02 03:04:05,123] [INFO] [timer.py:260:stop] epoch=0/micro_step={2 * step}/global_step={step},"
        f" RunningAvgSamplesPerSec=140.5, CurrSamplesPerSec={64 / time}, MemAllocated=1.2GB, MaxMemAllocated=3.4GB"
    )


def pipeline(step: int, time: float) -> str:
    return f"steps: {step} loss: 7.1234 iter time (s): {time:.3f} samples/sec: {64 / time:.3f}"


def nanogpt(step: int, time: float) -> str:
    return f"iter {step}: loss 3.2100, time {time * 1000:.2f}ms, mfu 31.20%"


def timm(step: int, time: float) -> str:
    epoch, n = divmod(step, 100)
    return (
        f"Train: {epoch} [{n:>4d}/100 ({n:>3.0f}%)]  Loss: 6.95 (6.99)  Time: {time:.3f}s, {640 / time:>7.2f}/s"
        f"  (0.777s,  823.55/s)  LR: 1.000e-05  Data: 0.010 (0.012)"
    )


def torch_imagenet(step: int, time: float) -> str:
    epoch, n = divmod(step - 1, 100)
    return (
        f"Epoch: [{epoch}][{n + 1:>3d}/100]\tTime {time:6.3f} ( 0.777)\tData  0.010 ( 0.012)"
        "\tLoss 6.9123e+00 (6.9500e+00)\tAcc@1   0.39 (  0.21)\tAcc@5   1.17 (  0.92)"
    )


def torchvision(step: int, time: float) -> str:
    epoch, n = divmod(step, 100)
    return (
        f"Epoch: [{epoch}]  [{n:>3d}/100]  eta: 0:12:34  lr: 0.1  img/s: {32 / time:.3f}  loss: 6.9123 (7.0123)"
        f"  acc1: 0.0000 (0.3125)  acc5: 3.1250 (1.5625)  time: {time:.4f}  data: 0.0023  max mem: 4321"
    )


def openpcdet(step: int, time: float) -> str:
    return (
        f"2026-01-02 03:04:05,123   INFO  Train:    1/80 (  1%) [ {step:>3}/500 ( 10%)]  Loss: 5.1 (5.1)"
        f"  LR: 1.0e-03  Time cost: 00:11/12:13  Acc_iter {step}       Data time: 0.01(0.02)"
        f"  Forward time: 0.31(0.29)  Batch time: {time:.2f}(0.77)"
    )


def mmengine(step: int, time: float) -> str:
    epoch, n = divmod(step - 1, 100)
    return (
        f"2026/01/02 03:04:05 - mmengine - INFO - Epoch(train)  [{epoch + 1}][{n + 1:>3}/100]  lr: 1.0000e-02"
        f"  eta: 0:10:00  time: {time:.4f}  data_time: 0.0123  memory: 4000  loss: 0.5123  loss_cls: 0.4000"
    )


def mmengine_iter(step: int, time: float) -> str:
    return (
        f"2026/01/02 03:04:05 - mmengine - INFO - Iter(train) [{step:>5}/80000]  lr: 1.0000e-02"
        f"  eta: 0:10:00  time: {time:.4f}  data_time: 0.0123  memory: 4000  loss: 0.5123"
    )


def mmcv(step: int, time: float) -> str:
    epoch, n = divmod(step - 1, 100)
    return (
        f"2026-01-02 03:04:05,123 - mmcv - INFO - Epoch [{epoch + 1}][{n + 1}/100]\tlr: 1.000e-02, eta: 0:10:00,"
        f" time: {time:.3f}, data_time: 0.012, memory: 4000, loss: 0.5"
    )


def paddle_seg(step: int, time: float) -> str:
    return (
        f"2026-01-02 03:04:05 [INFO]\t[TRAIN] epoch: 1, iter: {step}/500, loss: 0.5, lr: 0.010000,"
        f" batch_cost: {time:.4f}, reader_cost: 0.00123, ips: 4.8500 samples/sec | ETA 00:01:00"
    )


def paddle_det(step: int, time: float) -> str:
    epoch, n = divmod(step, 100)
    return (
        f"[01/02 03:04:05] ppdet.engine INFO: Epoch: [{epoch}] [{n:4d}/100] learning_rate: 0.000033 loss: 1.200000"
        f" eta: 2:10:10 batch_cost: {time:.4f} data_cost: 0.0003 ips: 0.7210 images/s"
    )


def paddle_ocr(step: int, time: float) -> str:
    return (
        f"[2026/01/02 03:04:05] ppocr INFO: epoch: [1/500], global_step: {step}, lr: 0.001000, loss: 1.2,"
        f" avg_reader_cost: 0.03000 s, avg_batch_cost: {time:.5f} s, avg_samples: 16.0, ips: 40.1 samples/s,"
        " eta: 1:00:00"
    )


def paddle_nlp(step: int, time: float) -> str:
    return (
        f"[2026-01-02 03:04:05,123] [    INFO] - global step {step}, epoch: 1, batch: {step - 1}, loss: 1.234567,"
        f" avg_reader_cost: 0.00010 sec, avg_batch_cost: {time:.5f} sec, avg_samples: 32.00000, ips: 77.1 sequences/sec"
    )


def paddle_clas(step: int, time: float) -> str:
    epoch, n = divmod(step, 100)
    return (
        f"[2026/01/02 03:04:05] ppcls INFO: [Train][Epoch {epoch + 1}/120][Iter: {n}/100]lr(LinearWarmup): 0.00010000,"
        f" top1: 0.00000, CELoss: 7.00000, loss: 7.00000, batch_cost: {time:.5f}s, reader_cost: 0.01000,"
        " ips: 27.30000 samples/s, eta: 2 days, 1:02:03"
    )


def titan(step: int, time: float) -> str:
    return (
        f"[titan] \x1b[31mstep: {step:2}  \x1b[32mloss:  8.00000  \x1b[38;2;180;60;0mgrad_norm:  1.2000"
        f"  \x1b[36mmemory: 42.50GiB(53.10%)  \x1b[34mtps: {round(8 * 2048 / 2 / time):,}"
        "  \x1b[36mtflops: 1,234.56  \x1b[35mmfu: 40.12%\x1b[39m"
    )


def fairchem(step: int, time: float) -> str:
    return (
        f"INFO:root:{{'train/loss': 12.5, 'train/lr': 0.02, 'train/step': {step}, 'train/epoch': 0.0,"
        f" 'train/samples_per_second(approx)': {3 * 2 / time}, 'train/atoms_per_second(approx)': 271.5,"
        " 'train/num_atoms_on_rank': 250, 'train/num_samples_on_rank': 3, 'train/grad_norm': 31.5}"
    )


def nemo(step: int, time: float) -> str:
    return (
        f"Training epoch 0, iteration {step}/999 | lr: 1.961e-07 | global_batch_size: 4 | global_step: {step} |"
        f" reduced_train_loss: 14.66 | train_step_timing in s: {time:.4} | consumed_samples: {4 * step + 4}"
    )


def nemo_bar(step: int, time: float) -> str:
    return (
        f"Epoch 0: : {step // 10}%|#         | {step}/1000 [10:48<10:00, reduced_train_loss=0.0172,"
        f" global_step={step - 1}.00, consumed_samples=25600.0, train_step_timing in s={time:.3f}]"
    )


def paddle_trainer(step: int, time: float) -> str:
    return (
        "[2026-01-02 03:04:05,123] [    INFO] - loss: 2.78513584, learning_rate: 2.9984126984126986e-05,"
        f" global_step: {step}, interval_runtime: {10 * time:.4f}, interval_samples_per_second: {8 / time:.3f},"
        f" interval_steps_per_second: {1 / time:.3f}, epoch: 0.0529"
    )


def fairseq(step: int, time: float) -> str:
    return (
        f"2026-01-02 03:04:05 | INFO | train_inner | epoch 001:  {step:5d} / 4870 loss=4.655, nll_loss=4.1, ppl=20.12,"
        f" wps={2000 / time:.1f}, ups={1 / time:.2f}, wpb=2000.0, bsz=60.1, num_updates={step}, lr=1e-05, gnorm=1.2,"
        " train_wall=8, gb_free=9.3, wall=45"
    )


def fairseq_json(step: int, time: float) -> str:
    return (
        '2026-01-02 03:04:05 | INFO | train_inner | {"epoch": 3, "update": 2.174, "loss": "9.368", "ppl": "460.11",'
        f' "wps": "{2000 / time:.1f}", "ups": "{1 / time:.2f}", "wpb": "2000.0", "bsz": "1117.8",'
        f' "num_updates": "{step}", "lr": "3.75e-05", "gnorm": "1.724", "train_wall": "93", "wall": "0"}}'
    )


def llm_c(step: int, time: float) -> str:
    return (
        f"step {step:4d}/18865 | loss 10.971000 (+nanz)| norm 15.3000 (+nanz)| lr 8.57e-07 | {time * 1000:.2f} ms |"
        " 41.9% bf16 MFU | 171535 tok/s"
    )


def train_gpt2(step: int, time: float) -> str:
    return f"step {step:4d}/20 | train loss 5.270007 | norm 30.8 | lr 1.00e-04 | ({time * 1000:.2f} ms | 4538 tok/s)"


def nanochat(step: int, time: float) -> str:
    return (
        f"step {step:05d}/21400 (0.05%) | loss: 10.123456 | grad norm: 0.5000 | lrm: 1.00 | dt: {time * 1000:.2f}ms |"
        " tok/sec: 1,048,576 | mfu: 48.00 | total time: 0.05m"
    )


def build_nanogpt(step: int, time: float) -> str:
    return (
        f"step {step:5d} | loss: 10.955039 | lr 8.3916e-07 | norm: 15.3659 | dt: {time * 1000:.2f}ms |"
        " tok/sec: 51234.12"
    )


def maxtext(step: int, time: float) -> str:
    return (
        f"I0102 03:04:05.526789 1253 metric_logger.py:181] completed step: {step}, seconds: {time:.3f},"
        " TFLOP/s/device: 237.056, Tokens/s/device: 9448.085, total_weights: 29413, loss: 14.140"
    )


def espnet(step: int, time: float) -> str:
    return (
        f"[node] 2026-01-02 03:04:05,764 (trainer:793) INFO: 1epoch:train:{step - 9}-{step}batch: iter_time=4.780e-04,"
        f" forward_time=0.055, loss_ctc=515.555, acc=4.043e-04, loss=77.334, backward_time=0.032,"
        f" optim_step_time=0.003, optim0_lr0=1.750e-06, train_time={time:.3f}"
    )


def detectron2(step: int, time: float) -> str:
    return (
        f"[01/02 03:04:05 d2.utils.events]:  eta: 0:12:34  iter: {step}  total_loss: 1.923  loss_cls: 0.5317"
        f"  time: 0.7770  last_time: {time:.4f}  data_time: 0.0084  last_data_time: 0.0031   lr: 0.00717  max_mem: 400M"
    )


def detectron2_means(step: int, time: float) -> str:
    return (
        f"[01/02 03:04:05 d2.utils.events]:  eta: 0:12:34  iter: {step}  total_loss: 1.923  loss_cls: 0.5317"
        f"  time: {time:.4f}  data_time: 0.0084  lr: 0.00717  max_mem: 4000M"
    )


TITAN_HEAD = (
    "[titan] Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]\n"
    "[titan] Trainer is initialized with local batch size 8, global batch size 32, gradient accumulation steps 1,"
    " sequence length 2048, total steps 100 (warmup 2)\n"
)
BATCH = "[2026-01-02 03:04:05,123] [INFO] [config.py:1000:print]   train_batch_size ............. 64\n"

SAMPLES = {
    "megatron": Sample(megatron, "mean", " > elapsed time for building indices: 0.01 (sec)\nusing world size: 8, x\n"),
    "megatron:seconds": Sample(bigscience, "mean"),
    "deepspeed": Sample(throughput, "single", BATCH),
    "deepspeed_pipe": Sample(pipeline, "mean"),
    "nanogpt": Sample(nanogpt, "single", "step 0: train loss 10.9000, val loss 10.9000\n", every=1, first=0),
    "timm": Sample(timm, "single", every=50, first=0),
    "torch_imagenet": Sample(torch_imagenet, "single", first=1),
    "torchvision": Sample(torchvision, "smoothed", first=0),
    "openpcdet": Sample(openpcdet, "single"),
    "mmengine": Sample(mmengine, "mean"),
    "mmengine:iter": Sample(mmengine_iter, "mean"),
    "mmcv": Sample(mmcv, "mean"),
    "paddle:seg": Sample(paddle_seg, "mean"),
    "paddle:det": Sample(paddle_det, "mean", every=20, first=0),
    "paddle:ocr": Sample(paddle_ocr, "mean"),
    "paddle:nlp": Sample(paddle_nlp, "mean"),
    "paddleclas": Sample(paddle_clas, "smoothed", every=20, first=0),
    "nemo": Sample(nemo, "mean"),
    "nemo_bar": Sample(nemo_bar, "single", every=1, first=1),
    "paddle_trainer": Sample(paddle_trainer, "mean"),
    "fairseq": Sample(fairseq, "mean", every=100, first=100),
    "fairseq:json": Sample(fairseq_json, "mean", every=100, first=100),
    "llm_c": Sample(llm_c, "single", every=1, first=1),
    "llm_c:python": Sample(train_gpt2, "single", every=1, first=1),
    "nanochat": Sample(nanochat, "single", every=1, first=0),
    "nanochat:before": Sample(build_nanogpt, "single", every=1, first=0),
    "maxtext": Sample(maxtext, "single", every=1, first=0),
    "espnet": Sample(espnet, "mean"),
    "detectron2": Sample(detectron2, "single", every=20, first=19),
    "detectron2_means": Sample(detectron2_means, "smoothed", every=20, first=19),
    "torchtitan": Sample(titan, "mean", TITAN_HEAD),
    "fairchem": Sample(
        fairchem, "single", "INFO:root:Running in local mode with 2 ranks using device_type:cpu\n", 1, 0
    ),
}
