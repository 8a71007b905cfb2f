# Kernel: triton_per_fused_native_layer_norm_1
# Expect: ok
# Why: a split reduction: 96 = 3 x 32, with no padding
# Configuration: XBLOCK=8 warps=4

@triton.jit
def triton_per_fused_native_layer_norm_1(in_ptr0, in_ptr1, in_ptr2, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 32)[None, :]
    at = r + 96*row
    a = tl.load(in_ptr0 + at, row < 60, other=0.0)
    b = tl.load(in_ptr0 + at + 32, row < 60, other=0.0)
    c = tl.load(in_ptr0 + at + 64, row < 60, other=0.0)
    mean = tl.sum(a + b + c, 1)[:, None] / 96.0
    a = a - mean
    b = b - mean
    c = c - mean
    scale = libdevice.rsqrt(tl.sum(a * a + b * b + c * c, 1)[:, None] / 96.0 + 1e-05)
    tl.store(out_ptr2 + at, a * scale * tl.load(in_ptr1 + r) + tl.load(in_ptr2 + r), row < 60)
    tl.store(out_ptr2 + at + 32, b * scale * tl.load(in_ptr1 + r + 32) + tl.load(in_ptr2 + r + 32), row < 60)
    tl.store(out_ptr2 + at + 64, c * scale * tl.load(in_ptr1 + r + 64) + tl.load(in_ptr2 + r + 64), row < 60)
