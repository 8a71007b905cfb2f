# Kernel: triton_poi_fused_convolution_relu_7
# Expect: ok
# Why: in place, a whole channel a program row
# Configuration: XBLOCK=512 warps=2

@triton.jit
def triton_poi_fused_convolution_relu_7(in_out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):
    x3 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x = tl.load(in_out_ptr0 + x3, x3 < 4480) + tl.load(in_ptr0 + (x3 // 35) % 16, x3 < 4480)
    tl.store(in_out_ptr0 + x3, triton_helpers.maximum(x, 0.0), x3 < 4480)
