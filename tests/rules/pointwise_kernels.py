"""Small pointwise kernels in the form in which Inductor writes them."""
from __future__ import annotations

import typing

HEAD = """import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={{'x': 1024}},
    filename=__file__,
    triton_meta={{'signature': {signature}, 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9, regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32), 'constants': {{}}, 'native_matmul': False, 'enable_fp_fusion': True, 'launch_pdl': False, 'disable_ftz': False, 'configs': [{{{aligned}}}]}},
    inductor_meta={{'grid_type': 'Grid1D', 'autotune_hints': set(), 'kernel_name': '{name}', 'mutated_arg_names': {mutated}}},
    min_elem_per_thread=0
)
@triton.jit
def {name}({parameters}, xnumel, XBLOCK : tl.constexpr):
"""

class Case(typing.NamedTuple):
    pointers: dict[str, str]  # parameter -> Triton's type
    sizes: dict[str, int]  # elements of each storage
    numel: int
    body: str


START = """xnumel = {numel}
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:]
xmask = xindex < xnumel
"""


def kernel(name, pointers, numel, body):
    """A kernel as text; `pointers` maps parameters to Triton's types."""
    signature = dict(pointers, xnumel="i32", XBLOCK="constexpr")
    aligned = [*range(len(pointers)), *([len(pointers)] if numel % 16 == 0 else [])]
    text = HEAD.format(name=name, signature=signature, parameters=", ".join(pointers),
                       aligned=", ".join(f"({i},): [['tt.divisibility', 16]]" for i in aligned),
                       mutated=[p for p in pointers if p.startswith("in_out")])
    return text + "".join(f"    {line}\n" for line in
                          (START.format(numel=numel) + body).strip().splitlines())


def module(sources):
    parts = ["async_compile = AsyncCompile()\n"]
    for name, source in sources.items():
        parts.append(f"{name} = async_compile.triton('{name}', '''\n{source}''', "
                     "device_str='cuda')\n")
    return "\n".join(parts)


def pool(width, out, rows_in, rows_out, taps, images, other, combine, pad, finish):
    """A window of taps x taps over rows of `width`, stride 1."""
    lines = [f"x1 = ((xindex // {out}) % {rows_out})", f"x0 = (xindex % {out})",
             f"x2 = xindex // {out * rows_out}", "x4 = xindex",
             "tmp1 = tl.full([1], 0, tl.int64)", f"tmp3 = tl.full([1], {width}, tl.int64)",
             f"tmp4 = tl.full([1], {rows_in}, tl.int64)"]
    count, previous = 10, None
    for dy in range(taps):
        for dx in range(taps):
            y, x = dy - pad, dx - pad
            a, b = count, count + 1
            lines += [f"tmp{a} = ({y}) + x1", f"tmp{a}a = tmp{a} >= tmp1", f"tmp{a}b = tmp{a} < tmp4",
                      f"tmp{b} = {x} + x0", f"tmp{b}a = tmp{b} >= tmp1", f"tmp{b}b = tmp{b} < tmp3",
                      f"tmp{a}c = tmp{a}a & tmp{a}b", f"tmp{b}c = tmp{b}a & tmp{b}b",
                      f"tmp{a}d = tmp{a}c & tmp{b}c",
                      f"tmp{a}v = tl.load(in_ptr0 + (({y * width + x}) + x0 + {width}*x1 + "
                      f"{width * rows_in}*x2), tmp{a}d & xmask, other={other})"]
            if previous is None:
                previous = f"tmp{a}v"
            else:
                lines.append(f"tmp{a}m = " + combine.format(previous, f"tmp{a}v"))
                previous = f"tmp{a}m"
            count += 2
    lines += finish.format(previous).splitlines()
    sizes = {"in_ptr0": width * rows_in * images, "out_ptr0": images * out * rows_out}
    return sizes, images * out * rows_out, "\n".join(lines)


FP32 = {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}
MAXIMUM = "triton_helpers.maximum({}, {})"


def cases():
    sizes, numel, body = pool(128, 127, 8, 7, 4, 3, 'float("-inf")', MAXIMUM, 1,
                       "tl.store(out_ptr0 + (x4), {}, xmask)")
    yield "max_pool_4x4", FP32, sizes, numel, body
    sizes, numel, body = pool(128, 128, 6, 6, 3, 2, "0.0", "{} + {}", 1,
                       "tmp900 = 0.1111111111111111\ntmp901 = {} * tmp900\n"
                       "tl.store(out_ptr0 + (x4), tmp901, xmask)")
    yield "average_pool_3x3", FP32, sizes, numel, body
    sizes, numel, body = pool(128, 126, 8, 6, 3, 2, "0.0", "triton_helpers.minimum({}, {})", 0,
                       "tl.store(out_ptr0 + (x4), {}, xmask)")
    yield "min_pool_no_pad", FP32, sizes, numel, body
    # One axis, dilated, rows of an odd length.
    taps = "\n".join(
        f"tmp{10 + i} = {3 * i - 4} + x0\ntmp{20 + i} = tmp{10 + i} >= tmp0\n"
        f"tmp{30 + i} = tmp{10 + i} < tmp7\ntmp{40 + i} = tmp{20 + i} & tmp{30 + i}\n"
        f"tmp{50 + i} = tl.load(in_ptr0 + ({3 * i - 4} + x0 + 256*x1), tmp{40 + i} & xmask, "
        f"other=float(\"-inf\"))" for i in range(5))
    chain = "tmp61 = triton_helpers.maximum(tmp50, tmp51)\n" + "\n".join(
        f"tmp{60 + i} = triton_helpers.maximum(tmp{59 + i}, tmp{50 + i})" for i in range(2, 5))
    yield "max_pool_dilated", FP32, {"in_ptr0": 5 * 256, "out_ptr0": 5 * 251}, 5 * 251, f"""x0 = (xindex % 251)
x1 = xindex // 251
x2 = xindex
tmp0 = tl.full([1], 0, tl.int64)
tmp7 = tl.full([1], 256, tl.int64)
{taps}
{chain}
tl.store(out_ptr0 + (x2), tmp64, xmask)"""
    # Stride 2 in both axes, half precision.
    half = {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}
    loads = "\n".join(
        f"tmp{i} = tl.load(in_ptr0 + ({offset} + 2*x0 + 512*x1), xmask, "
        f"eviction_policy='evict_last').to(tl.float32)" for i, offset in enumerate((0, 1, 256, 257)))
    yield "max_pool_stride_2", half, {"in_ptr0": 512 * 6, "out_ptr0": 128 * 6}, 128 * 6, f"""x0 = (xindex % 128)
x1 = xindex // 128
x2 = xindex
{loads}
tmp4 = triton_helpers.maximum(tmp1, tmp0)
tmp5 = triton_helpers.maximum(tmp2, tmp4)
tmp6 = triton_helpers.maximum(tmp3, tmp5)
tl.store(out_ptr0 + (x2), tmp6, xmask)"""
    # A norm's last step: what rows share is loaded once, rows have scalars of their own.
    yield "scale_and_shift", {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "in_ptr2": "*fp32",
                              "in_ptr3": "*fp32", "out_ptr0": "*fp32"}, {
                                  "in_ptr0": 23 * 500, "in_ptr1": 23, "in_ptr2": 500,
                                  "in_ptr3": 500, "out_ptr0": 23 * 500}, 23 * 500, """x0 = (xindex % 500)
x1 = xindex // 500
x2 = xindex
tmp0 = tl.load(in_ptr0 + (x2), xmask)
tmp1 = tl.load(in_ptr1 + (x1), xmask, eviction_policy='evict_last')
tmp2 = tl.load(in_ptr2 + (x0), xmask, eviction_policy='evict_last')
tmp3 = tl.load(in_ptr3 + (x0), xmask, eviction_policy='evict_last')
tmp4 = tmp0 - tmp1
tmp5 = tmp4 * tmp2
tmp6 = tmp5 + tmp3
tmp7 = tl.full([1], 0, tl.int32)
tmp8 = triton_helpers.maximum(tmp7, tmp6)
tl.store(out_ptr0 + (x2), tmp8, xmask)"""
    # In place, a channel's bias, and a value that depends on the place itself.
    yield "bias_in_place", {"in_out_ptr0": "*fp32", "in_ptr0": "*fp32"}, {
        "in_out_ptr0": 3000, "in_ptr0": 6}, 3000, """x3 = xindex
x1 = ((xindex // 250) % 6)
x0 = (xindex % 250)
tmp0 = tl.load(in_out_ptr0 + (x3), xmask)
tmp1 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
tmp2 = tmp0 + tmp1
tmp3 = x0
tmp4 = tmp3.to(tl.float32)
tmp5 = tmp2 + tmp4
tl.store(in_out_ptr0 + (x3), tmp5, xmask)"""
    # An index that is loaded, and one that repeats inside of a row.
    yield "gather", {"in_ptr0": "*i64", "in_ptr1": "*fp32", "in_ptr2": "*fp32",
                     "out_ptr0": "*fp32"}, {
                         "in_ptr0": 240, "in_ptr1": 7 * 240, "in_ptr2": 60,
                         "out_ptr0": 7 * 240}, 7 * 240, """x0 = (xindex % 240)
x1 = xindex // 240
x2 = (xindex % 60)
x3 = xindex
tmp0 = tl.load(in_ptr0 + (x0), xmask, eviction_policy='evict_last')
tmp1 = tl.load(in_ptr1 + (tmp0 + 240*x1), xmask)
tmp2 = tl.load(in_ptr2 + (x2), xmask)
tmp3 = tmp1 + tmp2
tl.store(out_ptr0 + (x3), tmp3, xmask)"""


CASES = {name: Case(*case) for name, *case in cases()}
