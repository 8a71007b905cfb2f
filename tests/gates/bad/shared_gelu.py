# Kernel: triton_poi_fused_add_mul_pow_tanh_0
# Expect: too_much_shared_memory
# Why: more shared memory than there is
# Configuration: warps=16

@triton.jit
def triton_poi_fused_add_mul_pow_tanh_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    i = tl.arange(0, 65536)
    all = tl.load(in_ptr0 + i, i < 5000, other=0.0)
    other = tl.gather(all, (i * 7) % 65536, 0)
    tl.store(out_ptr0 + i, all + other * 0.0, (i < 5000) & (tl.program_id(0) == 0))
