# Kernel: triton_red_fused__native_batch_norm_legit_view_3
# Expect: ok
# Why: a split reduction: partial sums of four parts, added at the end
# Configuration: XBLOCK=2 R0_BLOCK=256 warps=4

@triton.jit
def triton_red_fused__native_batch_norm_legit_view_3(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 256)[None, :]
    at = r + 1000*row
    keep = (row < 20) & (r < 250)
    a = tl.load(in_ptr0 + at, keep, other=0.0)
    b = tl.load(in_ptr0 + at + 250, keep, other=0.0)
    c = tl.load(in_ptr0 + at + 500, keep, other=0.0)
    d = tl.load(in_ptr0 + at + 750, keep, other=0.0)
    mean = (tl.sum(a, 1) + tl.sum(b, 1) + tl.sum(c, 1) + tl.sum(d, 1))[:, None] / 1000.0
    a = tl.where(keep, a - mean, 0.0)
    b = tl.where(keep, b - mean, 0.0)
    c = tl.where(keep, c - mean, 0.0)
    d = tl.where(keep, d - mean, 0.0)
    var = (tl.sum(a * a, 1) + tl.sum(b * b, 1) + tl.sum(c * c, 1) + tl.sum(d * d, 1))[:, None] / 1000.0
    scale = libdevice.rsqrt(var + 1e-05)
    tl.store(out_ptr2 + at, a * scale, keep)
    tl.store(out_ptr2 + at + 250, b * scale, keep)
    tl.store(out_ptr2 + at + 500, c * scale, keep)
    tl.store(out_ptr2 + at + 750, d * scale, keep)
