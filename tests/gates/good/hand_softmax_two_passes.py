# Kernel: triton_red_fused__softmax_addmm_exp_gelu_prepare_softmax_online_sub_2
# Expect: ok
# Why: the largest first, then the sum: recomputation instead of rescaling
# Configuration: XBLOCK=2 R0_BLOCK=128 warps=4

@triton.jit
def triton_red_fused__softmax_addmm_exp_gelu_prepare_softmax_online_sub_2(in_out_ptr0, in_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    most = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    for r0 in tl.range(0, 1000, R0_BLOCK):
        r = r0 + tl.arange(0, R0_BLOCK)[None, :]
        keep = (row < 24) & (r < 1000)
        x = tl.load(in_out_ptr0 + r + 1000*row, keep, other=0.0) + tl.load(in_ptr0 + r, r < 1000, other=0.0)
        g = 0.5 * x * (1.0 + libdevice.erf(0.7071067811865476 * x))
        most = tl.where(keep, triton_helpers.maximum(most, g), most)
    top = triton_helpers.max2(most, 1)[:, None]
    total = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0 in tl.range(0, 1000, R0_BLOCK):
        r = r0 + tl.arange(0, R0_BLOCK)[None, :]
        keep = (row < 24) & (r < 1000)
        x = tl.load(in_out_ptr0 + r + 1000*row, keep, other=0.0) + tl.load(in_ptr0 + r, r < 1000, other=0.0)
        g = 0.5 * x * (1.0 + libdevice.erf(0.7071067811865476 * x))
        total += tl.where(keep, libdevice.exp(g - top), 0.0)
    sums = tl.sum(total, 1)[:, None]
    for r0 in tl.range(0, 1000, R0_BLOCK):
        r = r0 + tl.arange(0, R0_BLOCK)[None, :]
        keep = (row < 24) & (r < 1000)
        x = tl.load(in_out_ptr0 + r + 1000*row, keep, other=0.0) + tl.load(in_ptr0 + r, r < 1000, other=0.0)
        g = 0.5 * x * (1.0 + libdevice.erf(0.7071067811865476 * x))
        tl.store(in_out_ptr0 + r + 1000*row, libdevice.exp(g - top) / sums, keep)
