# Kernel: triton_red_fused__native_batch_norm_legit_view_3
# Expect: ok
# Why: more exact: sums in double
# Configuration: XBLOCK=1 R0_BLOCK=1024 warps=4

@triton.jit
def triton_red_fused__native_batch_norm_legit_view_3(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 1024)[None, :]
    keep = (xindex < 20) & (r < 1000)
    x = tl.load(in_ptr0 + r + 1000*xindex, keep, other=0.0)
    mean = tl.sum(x.to(tl.float64), 1)[:, None] / 1000.0
    off = tl.where(r < 1000, x - mean, 0.0)
    var = tl.sum(off * off, 1)[:, None] / 1000.0
    scale = libdevice.rsqrt((var + 1e-05).to(tl.float32))
    tl.store(out_ptr2 + r + 1000*xindex, off.to(tl.float32) * scale, keep)
