"""Convolution, BatchNorm in training mode, ReLU, max and average pooling, float32.

Batch 64 of 64 x 112 x 112, 3x3 convolution to 128 channels. In training mode
BatchNorm takes the mean and variance of the batch (a reduction over 411 MB) and
updates its running statistics, so that every call changes the module's buffers.
The convolution is a library call and stays as it is.
Expect: improved, in the statistics and in the kernel that normalises and pools.
"""
import torch
import torch.nn as nn

BATCH = 64
IN_CHANNELS = 64
OUT_CHANNELS = 128
SIZE = 112


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        self.max_pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.average_pool = nn.AvgPool2d(kernel_size=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.average_pool(self.max_pool(torch.relu(self.norm(self.conv(x)))))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
