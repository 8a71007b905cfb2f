# Kernel: triton_red_fused_argmax_4
# Expect: ok
# Why: the whole column in registers
# Configuration: XBLOCK=8 R0_BLOCK=64 warps=4

@triton.jit
def triton_red_fused_argmax_4(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    x3 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 128)[None, :]
    keep = (x3 < 120) & (r < 100)
    x = tl.load(in_ptr0 + x3 % 60 + 60*r + 6000*(x3 // 60), keep, other=0.0)
    x = tl.where(keep, x, float('-inf'))
    r = tl.where(keep, tl.broadcast_to(r, [XBLOCK, 128]), 2147483647)
    value, index = triton_helpers.max_with_index(x, r, 1)
    tl.store(out_ptr0 + x3, index[:, None], x3 < 120)
