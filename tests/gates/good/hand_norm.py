# Kernel: triton_per_fused_native_layer_norm_1
# Expect: ok
# Why: the row once, in registers
# Configuration: XBLOCK=4 warps=4

@triton.jit
def triton_per_fused_native_layer_norm_1(in_ptr0, in_ptr1, in_ptr2, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 128)[None, :]
    keep = (row < 60) & (r < 96)
    x = tl.load(in_ptr0 + r + 96*row, keep, other=0.0)
    off = tl.where(r < 96, x - tl.sum(x, 1)[:, None] / 96.0, 0.0)
    scale = libdevice.rsqrt(tl.sum(off * off, 1)[:, None] / 96.0 + 1e-05)
    w = tl.load(in_ptr1 + r, r < 96, other=0.0)
    b = tl.load(in_ptr2 + r, r < 96, other=0.0)
    tl.store(out_ptr2 + r + 96*row, off * scale * w + b, keep)
