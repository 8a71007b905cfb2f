"""Writes the TTIR fixtures beside this file (needs triton, no GPU):

    python make_fixtures.py
    python make_fixtures.py versions    # versions/TRITON-VERSION/*.ttir, once a version

Both again when this file changes: tests look up the lines that the texts name.

The kernels are our own, in the manner of Inductor's, and cover what the
reader and the analyses must tell apart. Locations are kept in some fixtures
and stripped in others, since both forms occur.
"""

import os
import re
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice


@triton.jit
def pointwise(in_out_ptr0, in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    a = tl.load(in_out_ptr0 + xindex, xmask)
    b = tl.load(in_ptr0 + xindex % 128, xmask, eviction_policy="evict_last").to(tl.float32)
    c = libdevice.exp(a + b)
    tl.store(in_out_ptr0 + xindex, c, xmask)
    tl.store(out_ptr0 + xindex, c.to(tl.bfloat16), xmask)


@triton.jit
def reduction(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    acc = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        mask = r0_offset + r0_base < r0_numel
        x = tl.load(in_ptr0 + (r0_offset + r0_base + r0_numel * xindex), mask, other=0.0)
        acc = tl.where(mask, acc + x * x, acc)
    total = tl.sum(acc, 1)[:, None]
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        mask = r0_offset + r0_base < r0_numel
        x = tl.load(in_ptr0 + (r0_offset + r0_base + r0_numel * xindex), mask, other=0.0)
        tl.store(out_ptr0 + (r0_offset + r0_base + r0_numel * xindex), x / total, mask)


@triton.jit
def gather(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    i = tl.load(in_ptr0 + xindex, xmask)
    i = tl.where(i < 0, i + 100, i)
    tl.device_assert((0 <= i) & (i < 100), "index out of bounds: 0 <= i < 100")
    tl.store(out_ptr0 + xindex, tl.load(in_ptr1 + i, xmask), xmask)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def control(p, q, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if n == 0:
        return
    x = tl.load(p + i, i < n, other=0.0)
    chosen = p
    if n > 5:
        chosen = q
        x = x + 1.0
    else:
        x = x * 2.0
    y = tl.load(chosen + i)
    walker = q + i
    j = 0
    while j < n:
        y += tl.load(walker)
        walker += B
        j += B
    tl.store(out + i, tl.associative_scan(x, 0, add) + y)


@triton.jit
def select_one(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    x = tl.load(in_ptr0 + (r0_index + R0_BLOCK * xindex), xindex < xnumel, other=0.0)
    bits = x.to(tl.uint32, bitcast=True)
    last = tl.sum(bits * (r0_index == R0_BLOCK - 1), 1, keep_dims=True)
    last = last.to(tl.uint32).to(tl.float32, bitcast=True)
    tl.store(out_ptr0 + (r0_index + R0_BLOCK * xindex), x - last, xindex < xnumel)


@triton.jit
def forbidden(p, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(p + i, volatile=True)
    m = tl.reshape(x, (16, 16))
    d = tl.dot(m, m, input_precision="tf32")
    h = d.to(tl.float16)
    h = (h * h).to(tl.float32)
    z = tl.inline_asm_elementwise(
        'mov.b32 $0, $1; // }{ "', "=r,r", [x], tl.float32, True, 1
    )
    tl.atomic_add(out + i, z + tl.reshape(h, (B,)))


@triton.jit(noinline=True)
def callee(p, n):
    return tl.load(p + n)


@triton.jit
def untraceable(p, out, n, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), callee(p, n))


@triton.jit
def dot(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :])
        b = tl.load(b_ptr + (i + k)[:, None] * 64 + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * 64 + n[None, :], acc.to(tl.float16))


@triton.jit
def atomics(f_ptr, i_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    old = tl.atomic_add(f_ptr + i % 8, 1.5, mask)
    tl.atomic_max(i_ptr + i % 8, i, mask)
    tl.atomic_cas(i_ptr, 0, 1)
    tl.store(out_ptr + i, old, mask)


@triton.jit
def mul_add(a0, b0, a1, b1):
    return a1 * a0, a1 * b0 + b1


@triton.jit
def scan(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    p, q = tl.associative_scan((x, x), 0, mul_add, reverse=True)
    value, index = tl.max(x, 0, return_indices=True)
    tl.store(y_ptr + i, p + q + tl.cumsum(x, 0) + value)
    tl.store(y_ptr + B + i, x.to(tl.int32).to(tl.float32) + index)


@triton.jit
def library(x_ptr, y_ptr, n, eps, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.device_assert(i < n, "outside: \" } {")
    x = tl.load(x_ptr + i, i < n, other=1.0).to(tl.float32) + eps
    y = libdevice.tanh(x) + libdevice.pow(x, 2.0) + tl.exp(x) + tl.math.rsqrt(x) + tl.sqrt_rn(x)
    y = tl.div_rn(y, 3.0) + tl.math.erf(x) + tl.clamp(x, 0.0, 1.0) + tl.fma(x, x, x)
    y += tl.abs(x) + tl.floor(x) + tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    y = tl.where(y != y, float("-inf"), y)
    if n > 100:
        if eps > 0.5:
            return
        y += 1
    tl.store(y_ptr + i, y, i < n)


@triton.jit
def descriptors(x_ptr, y_ptr, M, N, B: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, B])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [B, B])
    pid = tl.program_id(0)
    y.store([pid * B, 0], x.load([pid * B, 0]) + 1)


F, I = "*fp32", "i32"
FIXTURES = {
    # name: kernel, signature, constexprs, keep locations
    "pointwise": (pointwise, [F, "*bf16", "*bf16", I], [256], True),
    "reduction": (reduction, [F, F, I, I], [4, 64], False),
    "gather": (gather, ["*i64", F, F, I], [128], True),
    "control": (control, [F, F, F, I], [64], False),
    "select_one": (select_one, [F, F, I], [8, 16], False),
    "forbidden": (forbidden, [F, F, I], [256], False),
    "untraceable": (untraceable, [F, F, I], [64], False),
}

# Read by every version of triton that is supported: what its text looks like.
VERSIONED = {
    "dot": (dot, ["*fp16", "*fp16", "*fp16", I], [16, 16, 32], True),
    "atomics": (atomics, [F, "*i32", F, I], [64], True),
    "scan": (scan, [F, F], [16], True),
    "library": (library, ["*bf16", F, "i64", "fp32"], [128], True),
    "descriptors": (descriptors, [F, F, I, I], [16], True),
}
ASSERTING = {"gather", "library"}


def strip(text):
    text = re.sub(r' loc\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)', "", text)
    return "".join(line for line in text.splitlines(True) if not line.startswith("#loc"))


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    fixtures = FIXTURES
    if "versions" in sys.argv:
        folder = os.path.join(folder, "versions", triton.__version__)
        fixtures = VERSIONED
    os.makedirs(folder, exist_ok=True)
    for name, (kernel, types, constants, keep) in fixtures.items():
        names = kernel.arg_names
        signature = dict(zip(names, types + ["constexpr"] * len(constants)))
        constexprs = {(len(types) + i,): value for i, value in enumerate(constants)}
        attrs = {
            (i,): [["tt.divisibility", 16]]
            for i, spelled in enumerate(types)
            if spelled.startswith("*") or spelled == I
        }
        compiled = triton.compile(
            ASTSource(kernel, signature, constexprs, attrs),
            target=GPUTarget("cuda", 90, 32),
            options={"num_warps": 4, "num_stages": 1, "debug": name in ASSERTING},
        )
        text = compiled.asm["ttir"].replace(os.path.abspath(__file__), "kernels.py")
        text = text.replace(__file__, "kernels.py")
        # The library's own files.
        text = re.sub(r'"/[^"]*/triton/', '"triton/', text)
        with open(os.path.join(folder, name + ".ttir"), "w") as out:
            out.write(text if keep else strip(text))


if __name__ == "__main__":
    main()
