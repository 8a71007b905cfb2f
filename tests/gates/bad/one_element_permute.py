# Kernel: triton_poi_fused_clone_transpose_view_9
# Expect: wrong_value
# Why: 12: two elements of 40960 are swapped

@triton.jit
def triton_poi_fused_clone_transpose_view_9(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 40960
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = (xindex % 40)
    x1 = ((xindex // 40) % 8)
    x2 = ((xindex // 320) % 64)
    x3 = xindex // 20480
    x4 = xindex
    x0 = tl.where(x4 == 20001, 2, tl.where(x4 == 20002, 1, x0))
    tmp0 = tl.load(in_ptr0 + (x0 + 40*x2 + 2560*x1 + 20480*x3), None)
    tl.store(out_ptr0 + (x4), tmp0, None)
