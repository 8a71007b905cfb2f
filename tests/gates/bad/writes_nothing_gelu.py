# Kernel: triton_poi_fused_add_mul_pow_tanh_0
# Expect: not_written
# Why: 1: leaves what is in memory

@triton.jit
def triton_poi_fused_add_mul_pow_tanh_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
