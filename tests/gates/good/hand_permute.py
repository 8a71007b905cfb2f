# Kernel: triton_poi_fused_clone_transpose_view_9
# Expect: ok
# Why: reads in order instead of writing in order
# Configuration: XBLOCK=1024 warps=8

@triton.jit
def triton_poi_fused_clone_transpose_view_9(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    x4 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    c = x4 % 40
    row = (x4 // 40) % 64
    head = (x4 // 2560) % 8
    batch = x4 // 20480
    tl.store(out_ptr0 + c + 40*head + 320*row + 20480*batch, tl.load(in_ptr0 + x4))
