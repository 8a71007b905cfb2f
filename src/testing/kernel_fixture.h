// A small generated kernel and call sites of it, for tests of the search and
// of what is above it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agents/search.h"
#include "inductor/module.h"
#include "testing/fakes.h"

namespace kernelopt::testing {

inline constexpr const char* kPointwiseSource = R"(
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={'x': 1048576},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'}, 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9, regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32), 'constants': {}, 'configs': [{(0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]], (2,): [['tt.divisibility', 16]]}]},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'triton_poi_fused_relu_0', 'mutated_arg_names': [], 'num_load': 1, 'num_reduction': 0}
)
@triton.jit
def triton_poi_fused_relu_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1048576
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tmp1 = tl.full([1], 0, tl.int32)
    tmp2 = triton_helpers.maximum(tmp1, tmp0)
    tl.store(out_ptr0 + (x0), tmp2, None)
)";

inline Kernel PointwiseKernel() {
  auto kernel = ReadKernelSource(kPointwiseSource, "kernel.py");
  return kernel ? std::move(*kernel) : Kernel{};
}

inline LaunchConfig PointwiseConfig(int64_t block, int warps) {
  LaunchConfig config;
  config.constexprs = {{"XBLOCK", block}};
  config.num_warps = warps;
  return config;
}

/// One launch over 2^20 elements.
inline BuiltSite PointwiseSite(const std::string& name, LaunchConfig config) {
  BuiltSite site;
  site.site.name = name;
  site.numels = {{"xnumel", 1 << 20}};
  site.compiler_config = std::move(config);
  site.device_us = 10;
  for (StorageRole role : {StorageRole::kData, StorageRole::kPoison}) {
    StorageSpec storage;
    storage.bytes = 4 << 20;
    storage.role = role;
    storage.written = role == StorageRole::kPoison;
    site.site.storages.push_back(storage);
  }
  for (int storage : {0, 1}) {
    ArgumentSpec argument;
    argument.storage = storage;
    site.site.arguments.push_back(argument);
  }
  ArgumentSpec numel;
  numel.kind = ArgumentSpec::Kind::kInt;
  numel.int_value = 1 << 20;
  site.site.arguments.push_back(numel);
  return site;
}

/// A compiler whose outputs name real TTIR and PTX of the source tree.
inline FakeCompiler PlainCompiler(const std::string& source_dir) {
  FakeCompiler compiler;
  compiler.ttir_path = source_dir + "/src/agents/testdata/plain.ttir";
  compiler.ptx_path = source_dir + "/src/agents/testdata/plain.ptx";
  return compiler;
}

}  // namespace kernelopt::testing
