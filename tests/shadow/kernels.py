"""Kernels with faults that pass where nothing looks for them, and the same without."""
import triton
import triton.language as tl


@triton.jit
def double_it(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=keep) * 2, mask=keep)


@triton.jit
def mirror_rows(x_ptr, scratch_ptr, o_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    base = tl.program_id(0) * N
    i = tl.arange(0, N)
    tl.store(scratch_ptr + base + i, tl.exp(tl.load(x_ptr + base + i)))
    if BARRIER:
        tl.debug_barrier()
    tl.store(o_ptr + base + i, tl.load(scratch_ptr + base + (N - 1 - i)))  # line 22


@triton.jit
def invert_rows(x_ptr, o_ptr, width, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    start = row * width  # 32 bits where not WIDE
    for c in range(0, width, BLOCK):
        offs = start + c + tl.arange(0, BLOCK)
        tl.store(o_ptr + offs, ~tl.load(x_ptr + offs))  # line 33


@triton.jit
def accumulate(x_ptr, o_ptr, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + i)
    if ATOMIC:
        tl.atomic_add(o_ptr + i, x)
    else:
        tl.store(o_ptr + i, tl.load(o_ptr + i) + x)  # line 43


@triton.jit
def hand_over(flag_ptr, o_ptr, FIRST: tl.constexpr):
    """Instances wait for the one before them; nobody begins where FIRST is not 0."""
    me = tl.program_id(0)
    seen = tl.atomic_add(flag_ptr, 0)
    while seen != me + FIRST:
        seen = tl.atomic_add(flag_ptr, 0)
    tl.store(o_ptr + me, me)
    tl.atomic_xchg(flag_ptr, me + 1)
