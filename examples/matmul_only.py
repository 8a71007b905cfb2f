"""Three matrix products in a row and nothing else, bfloat16.

8,192 x 4,096 times three 4,096 x 4,096 weights. All of it is library calls:
torch.compile makes no Triton kernel, so there is nothing that may be replaced.
Expect: kept, with that reason, in seconds.
"""
import torch
import torch.nn as nn

ROWS = 8192
WIDTH = 4096


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(3)))
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def get_inputs():
    return [torch.randn(ROWS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
