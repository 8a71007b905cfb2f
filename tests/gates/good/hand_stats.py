# Kernel: triton_per_fused__native_batch_norm_legit_functional_copy__8
# Expect: ok
# Why: Chan's formula by sums instead of a tree
# Configuration: XBLOCK=16 warps=1

@triton.jit
def triton_per_fused__native_batch_norm_legit_functional_copy__8(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, out_ptr0, out_ptr1, out_ptr3, out_ptr5, xnumel, r0_numel, XBLOCK : tl.constexpr):
    x0 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, 16)[None, :]
    keep = x0 < 12
    mean = tl.load(in_ptr0 + r + 16*x0, keep, other=0.0)
    m2 = tl.load(in_ptr1 + r + 16*x0, keep, other=0.0)
    n = tl.load(in_ptr2 + r + 16*x0, keep, other=0.0)
    mean, m2, n = triton_helpers.welford(mean, m2, n, 1)
    mean = mean[:, None]
    m2 = m2[:, None]
    old_mean = tl.load(in_ptr3 + x0, keep)
    old_var = tl.load(in_ptr4 + x0, keep)
    tl.store(out_ptr0 + x0, mean, keep)
    tl.store(out_ptr1 + x0, m2, keep)
    tl.store(out_ptr3 + x0, 0.1 * mean + 0.9 * old_mean, keep)
    tl.store(out_ptr5 + x0, 0.1 * (m2 / 1600.0 * 1.000625390869293) + 0.9 * old_var, keep)
