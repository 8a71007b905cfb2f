"""A training loss of three terms, summed to one number: cross entropy, distillation, boxes.

16,384 rows: 8,192 class logits with labels (cross entropy), as many logits of a
teacher (Kullback-Leibler divergence at temperature 2), and 2,048 coordinates
with targets (smooth L1); 1.3 GiB of float32 are read and four bytes are written.
Expect: kept. The large kernel is within 1 % of its best configuration; the small
ones gain, but are under 3 % of the whole.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384
CLASSES = 8192
COORDINATES = 2048


class Model(nn.Module):
    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits, labels, teacher_logits, boxes, box_targets) -> torch.Tensor:
        classification = F.cross_entropy(logits, labels)
        distillation = F.kl_div(
            F.log_softmax(logits / self.temperature, dim=-1),
            F.log_softmax(teacher_logits / self.temperature, dim=-1),
            reduction="batchmean", log_target=True) * self.temperature**2
        return classification + distillation + F.smooth_l1_loss(boxes, box_targets)


def get_inputs():
    return [
        torch.randn(ROWS, CLASSES),
        torch.randint(0, CLASSES, (ROWS,)),
        torch.randn(ROWS, CLASSES),
        torch.randn(ROWS, COORDINATES),
        torch.randn(ROWS, COORDINATES),
    ]


def get_init_inputs():
    return [2.0]
