"""Softmax over long rows, then a root-mean-square norm of the probabilities.

As in the output layer of a model with a large vocabulary: 2,048 rows of 131,072
values in float32, 1 GiB in and 1 GiB out. A row is far too long for one block's
registers, so the compiler's kernel walks over it several times.
Expect: kept. Other blocks and warps gain under 1 % here; to read a row once
instead of three times takes another kernel, not another configuration.
"""
import torch
import torch.nn as nn

ROWS = 2048
LENGTH = 131072


class Model(nn.Module):
    def __init__(self, length: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, length))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = torch.softmax(x, dim=-1)
        mean_square = probabilities.square().mean(dim=-1, keepdim=True)
        return probabilities * torch.rsqrt(mean_square + self.epsilon) * self.weight


def get_inputs():
    return [torch.randn(ROWS, LENGTH)]


def get_init_inputs():
    return [LENGTH, 1e-12]
