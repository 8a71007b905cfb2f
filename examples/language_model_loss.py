"""A training loss of three terms, summed to one number: cross entropy, z-loss, boxes.

65,536 rows of 4,096 class logits with labels: cross entropy, and the mean square
of the log partition function that keeps logits small; beside them smooth L1 over
65,536 x 256 box coordinates. 1.2 GB of float32 are read and four bytes written.
Expect: improved. Every kernel is a reduction, over rows first and over the whole
afterwards, where the compiler's choice of blocks and splits matters most.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 65536
CLASSES = 4096
COORDINATES = 256


class Model(nn.Module):
    def __init__(self, z_weight: float):
        super().__init__()
        self.z_weight = z_weight

    def forward(self, logits, labels, boxes, box_targets) -> torch.Tensor:
        classification = F.cross_entropy(logits, labels)
        z_loss = torch.logsumexp(logits, dim=-1).square().mean()
        return classification + self.z_weight * z_loss + F.smooth_l1_loss(boxes, box_targets)


def get_inputs():
    return [
        torch.randn(ROWS, CLASSES),
        torch.randint(0, CLASSES, (ROWS,)),
        torch.randn(ROWS, COORDINATES),
        torch.randn(ROWS, COORDINATES),
    ]


def get_init_inputs():
    return [1e-4]
