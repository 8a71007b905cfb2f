# Kernel: triton_poi_fused_add_mul_pow_tanh_0
# Expect: ok
# Why: the polynomial factored and the constants folded
# Configuration: XBLOCK=256 warps=4

@triton.jit
def triton_poi_fused_add_mul_pow_tanh_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    x0 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x = tl.load(in_ptr0 + x0, x0 < 5000)
    t = libdevice.tanh((x * 0.7978845608028654) * (1.0 + 0.044715 * (x * x)))
    tl.store(out_ptr0 + x0, (0.5 * x) * (1.0 + t), x0 < 5000)
