# Kernel: triton_poi_fused_add_mul_silu_sub_6
# Expect: narrower_arithmetic
# Why: 37: multiplies in bfloat16

@triton.jit
def triton_poi_fused_add_mul_silu_sub_6(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 4000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    half = tl.load(in_ptr0 + (x0), xmask)
    tmp0 = half.to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0), xmask).to(tl.float32)
    tmp2 = (half * tmp1.to(tl.bfloat16)).to(tl.float32)
    tmp3 = tmp2 + tmp0
    tmp4 = tl.sigmoid(tmp3)
    tmp5 = tmp3 * tmp4
    tmp6 = tmp5 + tmp1
    tmp7 = tl.full([1], 0.3, tl.float32)
    tmp8 = tmp6 * tmp7
    tmp9 = tmp8 - tmp0
    tl.store(out_ptr0 + (x0), tmp9, xmask)
