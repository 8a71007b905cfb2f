# Kernel: triton_poi_fused_add_mul_silu_sub_6
# Expect: ok
# Why: case 49: rounds once, with the sum regrouped
# Configuration: XBLOCK=512 warps=4

@triton.jit
def triton_poi_fused_add_mul_silu_sub_6(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    x0 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x = tl.load(in_ptr0 + x0, x0 < 4000).to(tl.float32)
    g = tl.load(in_ptr1 + x0, x0 < 4000).to(tl.float32)
    h = x * (g + 1.0)
    tl.store(out_ptr0 + x0, 0.3 * (h * tl.sigmoid(h) + g) - x, x0 < 4000)
