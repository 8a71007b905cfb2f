"""Writes the TTIR fixtures beside this file (needs triton, no GPU):

    python make_fixtures.py

The kernels are our own, in the manner of Inductor's, and cover what the
reader and the analyses must tell apart. Locations are kept in some fixtures
and stripped in others, since both forms occur.
"""

import os
import re

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


F, I = "*fp32", "i32"
FIXTURES = {
    # name: kernel, signature, constexprs, keep locations
    "pointwise": (pointwise, [F, "*bf16", "*bf16", I], [256], True),
    "reduction": (reduction, [F, F, I, I], [4, 64], False),
    "gather": (gather, ["*i64", F, F, I], [128], True),
    "control": (control, [F, F, F, I], [64], False),
    "forbidden": (forbidden, [F, F, I], [256], False),
    "untraceable": (untraceable, [F, F, I], [64], False),
}


def strip(text):
    text = re.sub(r' loc\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)', "", text)
    return "".join(line for line in text.splitlines(True) if not line.startswith("#loc"))


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, (kernel, types, constants, keep) in FIXTURES.items():
        names = kernel.arg_names
        signature = dict(zip(names, types + ["constexpr"] * len(constants)))
        constexprs = {(len(types) + i,): value for i, value in enumerate(constants)}
        attrs = {(i,): [["tt.divisibility", 16]] for i in range(len(types))}
        compiled = triton.compile(
            ASTSource(kernel, signature, constexprs, attrs),
            target=GPUTarget("cuda", 90, 32),
            options={"num_warps": 4, "num_stages": 1, "debug": name == "gather"},
        )
        text = compiled.asm["ttir"].replace(os.path.abspath(__file__), "kernels.py")
        text = text.replace(__file__, "kernels.py")
        with open(os.path.join(folder, name + ".ttir"), "w") as out:
            out.write(text if keep else strip(text))


if __name__ == "__main__":
    main()
