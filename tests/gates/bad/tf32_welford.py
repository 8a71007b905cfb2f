# Kernel: triton_red_fused__native_batch_norm_legit_view_3
# Expect: dot_precision
# Why: 37, case 46: sums on tensor cores in TF32
# Configuration: XBLOCK=16 R0_BLOCK=64 warps=8

@triton.jit
def triton_red_fused__native_batch_norm_legit_view_3(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    keep = xindex < 20
    r = tl.arange(0, 1024)[None, :]
    x = tl.load(in_ptr0 + r + 1000*xindex, keep & (r < 1000), other=0.0)
    ones = tl.full([1024, 16], 0.0625, tl.float32)
    mean = tl.sum(tl.dot(x, ones, input_precision='tf32'), 1)[:, None] / 1000.0
    off = tl.where(r < 1000, x - mean, 0.0)
    var = tl.sum(off * off, 1)[:, None] / 1000.0
    tl.store(out_ptr2 + r + 1000*xindex, off * libdevice.rsqrt(var + 1e-05), keep & (r < 1000))
