"""Kernel sources in the form that torch's compiler generates, for compute capability 90."""

HEADER = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()
"""

DECORATOR = """
@triton_heuristics.{kind}(
    size_hints={sizes},
    {hint}
    filename=__file__,
    triton_meta={{'signature': {signature}, 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9, regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32), 'constants': {{}}, 'native_matmul': False, 'enable_fp_fusion': True, 'launch_pdl': False, 'disable_ftz': False, 'configs': [{{{divisible}}}]}},
    inductor_meta={{'grid_type': 'Grid1D', 'autotune_hints': set(), 'kernel_name': '{name}', 'mutated_arg_names': {mutated}, 'no_x_dim': False, 'atomic_add_found': False, 'num_load': 1, 'num_store': 1, 'num_reduction': 0, 'deterministic': False, 'store_cubin': False, 'max_autotune': False, 'max_autotune_pointwise': False, 'spill_threshold': 16, 'min_split_scan_rblock': 256, 'dynamic_scale_rblock': True, 'autotune_local_cache': False, 'autotune_pointwise': True, 'autotune_remote_cache': None, 'force_disable_caches': False}}
)
@triton.jit
"""


def source(name, body, kind, sizes, signature, hint="", mutated=()):
    divisible = ", ".join(f"({i},): [['tt.divisibility', 16]]"
                          for i, spelled in enumerate(signature.values())
                          if spelled.startswith("*") or spelled == "i32")
    return HEADER + DECORATOR.format(
        kind=kind, sizes=sizes, hint=hint, signature=signature, divisible=divisible, name=name,
        mutated=list(mutated)) + body.replace("KERNEL", name)


def config(num_warps=4, num_stages=1, maxnreg=None, **constexprs):
    return {"constexprs": constexprs, "num_warps": num_warps, "num_stages": num_stages,
            "num_ctas": 1, "maxnreg": maxnreg}


def pointwise(name="triton_poi_scaled_add_0"):
    """out = 2 * a + b over 65,536 elements."""
    return source(name, '''def KERNEL(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 65536
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tmp1 = tl.load(in_ptr1 + (x0), None)
    tmp2 = tl.full([1], 2.0, tl.float32)
    tmp3 = tmp0 * tmp2
    tmp4 = tmp3 + tmp1
    tl.store(out_ptr0 + (x0), tmp4, None)
''', "pointwise", {"x": 65536},
                  {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32",
                   "XBLOCK": "constexpr"}, "tile_hint=TileHint.DEFAULT,")


def persistent(name="triton_per_row_max_1"):
    """The maximum of each row of 1,000 x 64."""
    return source(name, '''def KERNEL(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 1000
    r0_numel = 64
    R0_BLOCK: tl.constexpr = 64
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    tmp0 = tl.load(in_ptr0 + (r0_index + 64*xindex), xmask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(xmask, tmp1, float("-inf"))
    tmp4 = triton_helpers.max2(tmp3, 1)[:, None]
    tl.store(out_ptr0 + (xindex), tmp4, xmask)
''', "persistent_reduction", {"x": 1024, "r0_": 64},
                  {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32",
                   "XBLOCK": "constexpr"}, "reduction_hint=ReductionHint.INNER,")


def reduction(name="triton_red_exp_sum_2"):
    """The sum of exp(x) along rows of 128 x 40,000, in a loop, bf16 in and out."""
    return source(name, '''def KERNEL(in_out_ptr0, in_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 128
    r0_numel = 40000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        tmp0 = tl.load(in_ptr0 + (r0_index + 40000*xindex), r0_mask & xmask, other=0.0).to(tl.float32)
        tmp1 = libdevice.exp(tmp0)
        tmp4 = _tmp3 + tmp1
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    tmp5 = tl.load(in_out_ptr0 + (xindex), xmask).to(tl.float32)
    tl.store(in_out_ptr0 + (xindex), tmp3 + tmp5, xmask)
''', "reduction", {"x": 128, "r0_": 65536},
                  {"in_out_ptr0": "*bf16", "in_ptr0": "*bf16", "xnumel": "i32", "r0_numel": "i32",
                   "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"},
                  "reduction_hint=ReductionHint.INNER,", mutated=("in_out_ptr0",))
