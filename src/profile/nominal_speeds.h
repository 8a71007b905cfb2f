// What a GPU's data sheet says, for estimates on a machine that doesn't have it.
#pragma once

#include <optional>
#include <string_view>

#include "device/judge.h"

namespace kernelopt {

/// Speeds by the name that the driver gives a GPU ("NVIDIA H200"); nothing for a GPU that
/// is not listed. The bandwidth is 0.9 of the data sheet's, which large copies reach; that
/// of L2 and the empty kernel's time are as measured on an H200, since data sheets lack
/// them. What `doctor` measures on the GPU itself is always better.
std::optional<DeviceSpeeds> NominalSpeeds(std::string_view name);

}  // namespace kernelopt
