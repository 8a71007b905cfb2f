#include "profile/nominal_speeds.h"

namespace kernelopt {

std::optional<DeviceSpeeds> NominalSpeeds(std::string_view name) {
  // NVIDIA's data sheets, GB/s. A name that holds another comes first.
  static constexpr std::pair<std::string_view, double> kBandwidths[] = {{"B200", 8000},
                                                                        {"GH200 144G", 4900},
                                                                        {"GH200", 4000},
                                                                        {"H200", 4800},
                                                                        {"H100 PCIe", 2000},
                                                                        {"H100 NVL", 3900},
                                                                        {"H100", 3350},
                                                                        {"H800", 3350},
                                                                        {"H20", 4000},
                                                                        {"A100-SXM4-80GB", 2039},
                                                                        {"A100 80GB PCIe", 1935},
                                                                        {"A100-SXM4-40GB", 1555},
                                                                        {"A100-PCIE-40GB", 1555},
                                                                        {"A800", 2039},
                                                                        {"A10G", 600},
                                                                        {"A10", 600},
                                                                        {"A40", 696},
                                                                        {"L40S", 864},
                                                                        {"L40", 864},
                                                                        {"L4", 300},
                                                                        {"T4", 320},
                                                                        {"RTX 5090", 1792},
                                                                        {"RTX 4090", 1008},
                                                                        {"RTX 3090", 936}};
  for (const auto& [part, bandwidth] : kBandwidths) {
    if (name.find(part) == std::string_view::npos) continue;
    return DeviceSpeeds{
        .dram_gb_s = 0.9 * bandwidth, .l2_gb_s = 0.9 * bandwidth * 2, .empty_kernel_us = 1.5};
  }
  return std::nullopt;
}

}  // namespace kernelopt
