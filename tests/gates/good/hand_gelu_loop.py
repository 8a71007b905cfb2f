# Kernel: triton_poi_fused_add_mul_pow_tanh_0
# Expect: ok
# Why: a loop over parts of the tile
# Configuration: XBLOCK=1024 warps=4

@triton.jit
def triton_poi_fused_add_mul_pow_tanh_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    for i in tl.static_range(4):
        x0 = tl.program_id(0) * XBLOCK + i * (XBLOCK // 4) + tl.arange(0, XBLOCK // 4)
        x = tl.load(in_ptr0 + x0, x0 < 5000)
        t = libdevice.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x)))
        tl.store(out_ptr0 + x0, 0.5 * x * (1.0 + t), x0 < 5000)
