"""Pooling with overlapping windows on large maps: MaxPool2d 4x4, then AvgPool2d 5x5.

Batch 16 of 32 x 512 x 512 in float32 (512 MiB), both with stride 1, so that
each element is read by up to 16 and 25 windows; how well those reads are served
by the caches depends on the shape of the blocks.
Expect: improved, and by more than the others: the compiler's blocks are long and
one row high.
"""
import torch
import torch.nn as nn

BATCH = 16
CHANNELS = 32
SIZE = 512


class Model(nn.Module):
    def __init__(self, max_window: int, average_window: int):
        super().__init__()
        self.max_pool = nn.MaxPool2d(max_window, stride=1, padding=1)
        self.average_pool = nn.AvgPool2d(average_window, stride=1, padding=average_window // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.average_pool(self.max_pool(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [4, 5]
