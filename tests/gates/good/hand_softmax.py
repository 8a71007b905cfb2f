# Kernel: triton_red_fused__softmax_addmm_exp_gelu_prepare_softmax_online_sub_2
# Expect: ok
# Why: the row once, in registers: one read instead of two
# Configuration: XBLOCK=1 R0_BLOCK=256 warps=8

@triton.jit
def triton_red_fused__softmax_addmm_exp_gelu_prepare_softmax_online_sub_2(in_out_ptr0, in_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 1024)[None, :]
    keep = (row < 24) & (r < 1000)
    x = tl.load(in_out_ptr0 + r + 1000*row, keep, other=0.0) + tl.load(in_ptr0 + r, r < 1000, other=0.0)
    g = 0.5 * x * (1.0 + libdevice.erf(0.7071067811865476 * x))
    g = tl.where(keep, g, float('-inf'))
    most = triton_helpers.max2(g, 1)[:, None]
    e = libdevice.exp(g - most)
    e = tl.where(keep, e, 0.0)
    tl.store(in_out_ptr0 + r + 1000*row, e / tl.sum(e, 1)[:, None], keep)
