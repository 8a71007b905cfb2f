// A small generated module and a pack of its kernel, for this folder's tests.
#pragma once

#include <string>

#include "inductor/module.h"
#include "pack/pack.h"

namespace kernelopt {

/// A module with one pointwise kernel of this name; `addend` changes what the
/// kernel computes, `size` the module but not the kernel.
inline std::string ModuleText(const std::string& name, const std::string& addend = "1.0",
                              const std::string& size = "1024") {
  std::string text = R"py(# AOT ID: ['0_inference']
import torch
import triton
import triton.language as tl
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()


NAME = async_compile.triton('NAME', '''
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={'x': 1024},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'}, 'device': DeviceProperties(type='cuda', index=0, cc=90, major=9, multi_processor_count=132, warp_size=32), 'constants': {}, 'configs': [{(0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]]}]},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'NAME', 'mutated_arg_names': [], 'no_x_dim': False},
    min_elem_per_thread=0
)
@triton.jit
def NAME(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + (xindex), xmask)
    tmp1 = tmp0 + ADDEND
    tl.store(out_ptr0 + (xindex), tmp1, xmask)
''', device_str='cuda')


async_compile.wait(globals())
del async_compile

def call(args):
    arg0_1, = args
    args.clear()
    buf0 = torch.empty_strided((SIZE, ), (1, ), device='cuda', dtype=torch.float32)
    stream0 = get_raw_stream(0)
    NAME.run(arg0_1, buf0, SIZE, stream=stream0)
    return (buf0, )
)py";
  const auto put = [&](const std::string& from, const std::string& to) {
    for (size_t i = text.find(from); i != std::string::npos; i = text.find(from, i + to.size())) {
      text.replace(i, from.size(), to);
    }
  };
  put("NAME", name);
  put("ADDEND", addend);
  put("SIZE", size);
  return text;
}

inline constexpr const char* kTestKernelText = R"py(@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask)
    tl.store(out_ptr0 + xindex, tmp0 + 1.0, xmask)
)py";

/// A pack with a replacement of the kernel of ModuleText("triton_poi_fused_add_0").
inline Pack TestPack() {
  const Module module = *ReadModule(ModuleText("triton_poi_fused_add_0"), "module");
  PackKernel kernel;
  kernel.name = "triton_poi_fused_add_0";
  kernel.replacement.kernel_key = module.kernels.at(0).key;
  kernel.replacement.origin = "configuration";
  kernel.replacement.change = "XBLOCK 256 instead of 1024";
  ReplacementStep step;
  step.kernel_text = kTestKernelText;
  step.config.constexprs["XBLOCK"] = 256;
  step.config.maxnreg = 64;
  kernel.replacement.steps.push_back(step);
  kernel.modules = {module.key};
  kernel.cubin = std::string(
      "\x7f"
      "ELF\0cubin",
      10);
  kernel.record.entry = "triton_poi_fused_add_0__kopt";
  kernel.binary_hash = std::string(64, 'b');
  kernel.label = "bitwise";
  kernel.compiler_us = 12;
  kernel.ours_us = 8;

  Pack pack;
  pack.kernelopt_version = "0.1.0";
  pack.torch = "2.11.0+cu128";
  pack.triton = "3.6.0";
  pack.python = "3.12";
  pack.gpu = {"NVIDIA H200", 90, 132, ""};
  pack.model_file = "m.py";
  pack.model_sha256 = std::string(64, 'a');
  pack.variants.push_back(
      {"default", "default", false, 0, PackSpeedup{1.2, 1.1, 1.3}, {module.key}});
  pack.kernels.push_back(kernel);
  pack.evidence["gate3.json"] = "{}";
  pack.report_html = "<!doctype html>";
  return pack;
}

}  // namespace kernelopt
