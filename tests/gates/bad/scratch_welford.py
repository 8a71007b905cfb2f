# Kernel: triton_red_fused__native_batch_norm_legit_view_3
# Expect: reads_output
# Why: 41, case 44: a scratch row read back in reverse without a barrier
# Configuration: XBLOCK=2 R0_BLOCK=256 warps=8

@triton.jit
def triton_red_fused__native_batch_norm_legit_view_3(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    row = tl.program_id(0) * XBLOCK
    for i in tl.static_range(XBLOCK):
        if row + i < 20:
            r = tl.arange(0, 1024)
            x = tl.load(in_ptr0 + r + 1000*(row + i), r < 1000, other=0.0)
            mean = tl.sum(x, 0) / 1000.0
            off = tl.where(r < 1000, x - mean, 0.0)
            var = tl.sum(off * off, 0) / 1000.0
            y = off * libdevice.rsqrt(var + 1e-05)
            tl.store(out_ptr2 + (999 - r) + 1000*(row + i), y, r < 1000)
            back = tl.load(out_ptr2 + r + 1000*(row + i), r < 1000, other=0.0)
            tl.store(out_ptr2 + (999 - r) + 1000*(row + i), back, r < 1000)
