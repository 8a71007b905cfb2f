# Kernel: triton_red_fused__log_softmax_nll_loss_forward_sub_5
# Expect: ok
# Why: the target's branch folded away: a wrapped index by remainder
# Configuration: XBLOCK=1 R0_BLOCK=128 warps=4

@triton.jit
def triton_red_fused__log_softmax_nll_loss_forward_sub_5(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    x0 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 512)[None, :]
    keep = (x0 < 4) & (r < 500)
    t = tl.load(in_ptr0 + r + 500*x0, keep, other=0)
    counted = t != -100
    i = tl.where(counted, t, 0)
    i = tl.where(i < 0, i + 64, i)
    tl.device_assert(((0 <= i) & (i < 64)) | ~keep, "index out of bounds: 0 <= i < 64")
    at = r + 500*x0
    x = tl.load(in_ptr1 + i + 64*at, keep, other=0.0)
    lse = tl.load(in_ptr2 + at, keep, other=0.0)
    s = tl.load(in_ptr3 + at, keep, other=1.0)
    nll = tl.where(keep & counted, -(x - lse - tl_math.log(s)), 0.0)
    tl.store(out_ptr0 + x0, tl.sum(nll, 1)[:, None], x0 < 4)
    tl.store(out_ptr1 + x0, tl.sum((keep & counted).to(tl.int64), 1)[:, None], x0 < 4)
