#include "device/data.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace kernelopt {

static_assert(static_cast<int>(DType::kFloat16) == KOPT_F16 &&
              static_cast<int>(DType::kFloat64) == KOPT_F64 &&
              static_cast<int>(DType::kInt8) == KOPT_I8 &&
              static_cast<int>(DType::kInt64) == KOPT_I64 &&
              static_cast<int>(DType::kBool) == KOPT_BOOL);
static_assert(static_cast<int>(DataFamily::kUniform) == KOPT_UNIFORM &&
              static_cast<int>(DataFamily::kNormalShifted) == KOPT_NORMAL_SHIFTED &&
              static_cast<int>(DataFamily::kLogUniform) == KOPT_LOG_UNIFORM &&
              static_cast<int>(DataFamily::kCancelling) == KOPT_CANCELLING &&
              static_cast<int>(DataFamily::kCaptured) == KOPT_CAPTURED);
// The GPU gets both by value and reads them with the same layout.
static_assert(sizeof(KoptDraw) == 72 && sizeof(KoptStats) == 160);

Result<KoptDraw> MakeDraw(const StorageSpec& spec, int storage, const DataSet& data,
                          int perturbation) {
  const auto bad = [&](std::string message) {
    return Fail(ErrorKind::kUsage, "job_error", fmt::format("storage {}: {}", storage, message));
  };
  const int size = SizeOf(spec.dtype);
  if (spec.bytes < 0 || spec.bytes % size != 0) {
    return bad(fmt::format("{} bytes, wanted a multiple of {} for {}", spec.bytes, size,
                           ToString(spec.dtype)));
  }
  if (spec.int_low > spec.int_high) {
    return bad(fmt::format("the integer range {} to {} is empty", spec.int_low, spec.int_high));
  }
  KoptDraw draw{};
  draw.key = KoptKey(data.seed, static_cast<uint64_t>(storage), static_cast<uint64_t>(data.family));
  draw.count = spec.bytes / size;
  draw.int_low = spec.int_low;
  draw.int_high = spec.int_high;
  draw.dtype = static_cast<int>(spec.dtype);
  draw.family = static_cast<int>(data.family);
  // What was captured is the envelope itself.
  draw.in_envelope =
      spec.has_envelope && (data.in_envelope || data.family == DataFamily::kCaptured);
  draw.perturbation = perturbation;
  draw.is_weight = spec.is_weight;
  if (draw.in_envelope) {
    if (!std::isfinite(spec.float_low) || !std::isfinite(spec.float_high) ||
        spec.float_low > spec.float_high) {
      return bad(fmt::format("the envelope {} to {} is empty or not finite", spec.float_low,
                             spec.float_high));
    }
    draw.low = spec.float_low;
    draw.high = spec.float_high;
  }
  return draw;
}

uint64_t DrawElement(const KoptDraw& draw, int64_t index) {
  return KoptElement(&draw, static_cast<uint64_t>(index));
}

double ElementValue(uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return static_cast<int8_t>(bits);
    case DType::kUInt8:
      return static_cast<uint8_t>(bits);
    case DType::kInt16:
      return static_cast<int16_t>(bits);
    case DType::kInt32:
      return static_cast<int32_t>(bits);
    case DType::kInt64:
      return static_cast<double>(static_cast<int64_t>(bits));
    case DType::kBool:
      return static_cast<double>(bits & 0xFF);
    default:
      return KoptDecode(bits, static_cast<int>(dtype));
  }
}

uint64_t LoadElement(const void* array, int64_t index, DType dtype) {
  const int size = SizeOf(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(array) + index * size, static_cast<size_t>(size));
  return bits;
}

void StoreElement(void* array, int64_t index, DType dtype, uint64_t bits) {
  const int size = SizeOf(dtype);
  std::memcpy(static_cast<char*>(array) + index * size, &bits, static_cast<size_t>(size));
}

}  // namespace kernelopt
