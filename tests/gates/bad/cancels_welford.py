# Kernel: triton_red_fused__native_batch_norm_legit_view_3
# Expect: wrong_value | wrong_nonfinite
# Types: fp32
# Why: 42: the variance as a difference of squares

@triton.jit
def triton_red_fused__native_batch_norm_legit_view_3(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    keep = (xindex < 20) & (tl.arange(0, 1024)[None, :] < 1000)
    at = tl.arange(0, 1024)[None, :] + 1000*xindex
    x = tl.load(in_ptr0 + at, keep, other=0.0)
    mean = tl.sum(x, 1)[:, None] / 1000.0
    var = tl.sum(x * x, 1)[:, None] / 1000.0 - mean * mean
    tl.store(out_ptr2 + at, (x - mean) * libdevice.rsqrt(var + 1e-05), keep)
