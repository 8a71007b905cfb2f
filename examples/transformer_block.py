"""One pre-norm transformer block in bfloat16: attention, MLP with GELU, two LayerNorms.

Batch 16, sequence 1,024, width 1,024, 16 heads, MLP width 4,096. Attention and
the four projections are library calls and stay as they are; what is between them
(norms, GELU, residual sums) is the compiler's Triton code.
Expect: a small gain or kept, since most of the time is in the library calls;
`kernelopt estimate` says at most how much.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
SEQUENCE = 1024
WIDTH = 1024
HEADS = 16


class Model(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = x.shape
        qkv = self.qkv(self.norm1(x))
        q, k, v = qkv.view(batch, sequence, 3, self.heads, width // self.heads).unbind(2)
        attended = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def get_inputs():
    return [torch.randn(BATCH, SEQUENCE, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, HEADS]
