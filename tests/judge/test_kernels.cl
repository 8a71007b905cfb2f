// Kernels of judge_gpu_test: good ones, and ones with a planted fault each.
#define GLOBAL __global

static inline long Index(void) {
  return (long)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
         __nvvm_read_ptx_sreg_tid_x();
}

// out = a + b over n elements, and what can go wrong with it.
#define ADD(name, limit, before, value)                                                     \
  __kernel void name(GLOBAL float* a, GLOBAL float* b, GLOBAL float* out, int n) {          \
    const long i = Index();                                                                 \
    before;                                                                                 \
    if (i < (limit)) out[i] = (value);                                                      \
  }
ADD(add, n, , a[i] + b[i])
ADD(add_swapped, n, , b[i] + a[i])
ADD(add_short, n - 1, , a[i] + b[i])
ADD(add_none, 0, , a[i] + b[i])
ADD(add_long, n + 1, , i < n ? a[i] + b[i] : 0.0f)
ADD(add_before, n, if (i == 0) out[-1] = 0.0f, a[i] + b[i])
ADD(add_to_input, n, if (i == 7) b[i] += 1.0f, a[i] + b[i])
ADD(add_off, n, , a[i] + b[i] * 1.0001f)
ADD(add_nan, n, , i == 100 ? __builtin_nanf("") : a[i] + b[i])
ADD(add_clock, n, ,
    a[i] + b[i] + (__nvvm_read_ptx_sreg_clock() & 1) * 0.25f * 1.1920929e-7f * (a[i] + b[i]) * 4.0f)
ADD(add_illegal, n, if (i == 0) ((GLOBAL float*)64)[0] = 1.0f, a[i] + b[i])
ADD(add_reads_behind, n, , (a[i + 1] == 12345.678f && b[i] == 0.5f) ? 0.0f : a[i] + b[i])
ADD(add_reads_before, n, , (a[i - 1] == 12345.678f && b[i] == 0.5f) ? 0.0f : a[i] + b[i])

__kernel void add_hangs(GLOBAL float* a, GLOBAL float* b, GLOBAL float* out, int n) {
  GLOBAL volatile float* watched = out;
  while (watched[0] != 12345.678f) {
  }
}

// Scratch: one pointer that is null and one with 1024 bytes a CTA.
__kernel void add_scratch(GLOBAL float* a, GLOBAL float* b, GLOBAL float* out, int n,
                          GLOBAL float* null_scratch, GLOBAL float* scratch) {
  const long i = Index();
  scratch[i] = i < n ? a[i] + b[i] : 0.0f;
  if (i < n && null_scratch == 0) out[i] = scratch[i];
}

// In place, one storage in two slots, a float argument.
__kernel void scale(GLOBAL float* from, GLOBAL float* to, float factor, long n) {
  const long i = Index();
  if (i < n) to[i] = from[i] * factor;
}
__kernel void scale_other(GLOBAL float* from, GLOBAL float* to, float factor, long n) {
  const long i = Index();
  if (i < n) to[i] = from[i] * (factor * 1.001f);
}

// Sums of the rows of a matrix with 1024 columns, a block a row.
__kernel void sum_tree(GLOBAL const float* x, GLOBAL float* out) {
  __local float part[256];
  const int t = __nvvm_read_ptx_sreg_tid_x();
  const long row = __nvvm_read_ptx_sreg_ctaid_x();
  float sum = 0;
  for (int c = t; c < 1024; c += 256) sum += x[row * 1024 + c];
  part[t] = sum;
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {
    if (t < width) part[t] += part[t + width];
    __syncthreads();
  }
  if (t == 0) out[row] = part[0];
}
// The same sum in another order, as exact: each thread takes four neighbours.
#define SUM(name, last, factor)                                        \
  __kernel void name(GLOBAL const float* x, GLOBAL float* out) {       \
    __local float part[256];                                           \
    const int t = __nvvm_read_ptx_sreg_tid_x();                        \
    const long row = __nvvm_read_ptx_sreg_ctaid_x();                   \
    float sum = 0;                                                     \
    for (int c = 4 * t; c < 4 * t + 4; ++c) {                          \
      if (c < (last)) sum += x[row * 1024 + c];                        \
    }                                                                  \
    part[t] = sum;                                                     \
    __syncthreads();                                                   \
    for (int width = 1; width < 256; width *= 2) {                     \
      if (t % (2 * width) == 0) part[t] += part[t + width];            \
      __syncthreads();                                                 \
    }                                                                  \
    if (t == 0) out[row] = part[0] * (factor);                         \
  }
SUM(sum_neighbours, 1024, 1.0f)
SUM(sum_drops_last, 1023, 1.0f)
SUM(sum_of_1023, 1024, 1024.0f / 1023.0f)
// One long chain of additions: less exact than the tree.
__kernel void sum_chain(GLOBAL const float* x, GLOBAL float* out) {
  const long row = __nvvm_read_ptx_sreg_ctaid_x();
  if (__nvvm_read_ptx_sreg_tid_x() != 0) return;
  float sum = 0;
  for (int c = 0; c < 1024; ++c) sum += x[row * 1024 + c];
  out[row] = sum;
}

// Rows of a table by 64-bit indices.
__kernel void gather(GLOBAL const float* table, GLOBAL const long* index, GLOBAL float* out, int n) {
  const long i = Index();
  if (i < n) out[i] = table[index[i]];
}
__kernel void gather_clamped(GLOBAL const float* table, GLOBAL const long* index, GLOBAL float* out,
                             int n) {
  const long i = Index();
  if (i < n) out[i] = table[index[i] > 98 ? 98 : index[i]];
}

// Bytes beyond 2^31.
__kernel void bytes_copy(GLOBAL const char* from, GLOBAL char* to, long n) {
  for (long i = Index(); i < n; i += (long)__nvvm_read_ptx_sreg_nctaid_x() * 256) to[i] = from[i];
}
__kernel void bytes_copy_int32(GLOBAL const char* from, GLOBAL char* to, long n) {
  for (long i = Index(); i < n; i += (long)__nvvm_read_ptx_sreg_nctaid_x() * 256) {
    if ((long)(int)i == i) to[i] = from[i];
  }
}

typedef unsigned long Pair __attribute__((ext_vector_type(2)));
__kernel void copy_pairs(GLOBAL const Pair* from, GLOBAL Pair* to, long n) {
  for (long i = Index(); i < n; i += (long)__nvvm_read_ptx_sreg_nctaid_x() * 256) to[i] = from[i];
}
