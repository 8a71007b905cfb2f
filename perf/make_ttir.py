"""Writes the TTIR texts of shadow_perf: python perf/make_ttir.py (no GPU needed)."""
import pathlib
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def pointwise(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n)
    b = tl.load(y + i, i < n)
    tl.store(o + i, tl.maximum(a * 0.5 + b, 0.0), i < n)


@triton.jit
def gelu(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n)
    c = 0.7978845608 * (a + 0.044715 * a * a * a)
    t = 1.0 - 2.0 / (tl.exp(2.0 * c) + 1.0)
    r = 0.5 * a * (1.0 + t)
    s = r * r + a * 0.25 - r * 0.125
    tl.store(o + i, s * s + r, i < n)


@triton.jit
def softmax(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    e = tl.exp(a - tl.max(a, 0))
    tl.store(o + i, e / tl.sum(e, 0))


@triton.jit
def sum(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    total = tl.full([16, BLOCK], 0, tl.float32)
    for c in range(0, 1024, BLOCK):
        total += tl.load(x + row * 1024 + c + tl.arange(0, BLOCK)[None, :])
    tl.store(o + row, tl.sum(total, 1)[:, None])


@triton.jit
def combine(m0, s0, w0, m1, s1, w1):
    delta = m1 - m0
    w = w0 + w1
    r = w1 / w
    return m0 + delta * r, s0 + s1 + delta * delta * w0 * r, w


@triton.jit
def welford(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    one = tl.full([16, BLOCK], 1, tl.float32)
    total = tl.full([16, 1], 0, tl.float32)
    for c in range(0, 1024, BLOCK):
        a = tl.load(x + row * 1024 + c + tl.arange(0, BLOCK)[None, :])
        m, s, w = tl.reduce((a, a * 0.0, one), 1, combine)
        total += s[:, None]
    tl.store(o + row, total)


for kernel, block in ((pointwise, 1024), (gelu, 1024), (softmax, 2048), (sum, 64), (welford, 64)):
    signature = {name: "i32" if name == "n" else "constexpr" if name == "BLOCK" else "*fp32"
                 for name in kernel.arg_names}
    compiled = triton.compile(ASTSource(kernel, signature, {(len(signature) - 1,): block}),
                              target=GPUTarget("cuda", 90, 32))
    text = re.sub(r" ?loc\((?:[^()]|\([^()]*\))*\)", "", compiled.asm["ttir"])
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#loc")) + "\n"
    (pathlib.Path(__file__).parent / f"{kernel.__name__}.ttir").write_text(text)
