// For this folder's tests: TTIR of one operation or of a body, run on small arrays.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "device/data.h"
#include "shadow/evaluator.h"
#include "ttir/ttir.h"

namespace kernelopt {

inline ShadowProgram ProgramOf(const std::string& text, const ShadowOptions& options = {}) {
  auto module = ReadTtir(text, "test");
  EXPECT_TRUE(module) << (module ? "" : module.error().ToString()) << text;
  if (!module) return {};
  auto program = CompileShadowProgram(*module, options);
  EXPECT_TRUE(program) << (program ? "" : program.error().ToString()) << text;
  return program ? std::move(*program) : ShadowProgram{};
}

/// "f32" -> DType; i1 is a byte.
inline DType DTypeOf(std::string_view type) {
  if (type == "f16") return DType::kFloat16;
  if (type == "bf16") return DType::kBFloat16;
  if (type == "f32") return DType::kFloat32;
  if (type == "f64") return DType::kFloat64;
  if (type == "i1") return DType::kBool;
  if (type == "i8") return DType::kInt8;
  if (type == "i16") return DType::kInt16;
  return type == "i64" ? DType::kInt64 : DType::kInt32;
}

inline uint64_t EncodeAs(double value, std::string_view type) {
  const DType dtype = DTypeOf(type);
  if (KoptIsFloat(static_cast<int>(dtype))) return KoptEncode(value, static_cast<int>(dtype));
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

inline uint64_t StorageOf(ShadowMemory& memory, std::string_view type,
                          const std::vector<double>& values) {
  const DType dtype = DTypeOf(type);
  const int64_t size = SizeOf(dtype);
  std::string bytes(values.size() * static_cast<size_t>(size), '\0');
  for (size_t i = 0; i < values.size(); ++i)
    StoreElement(bytes.data(), static_cast<int64_t>(i), dtype, EncodeAs(values[i], type));
  const uint64_t address = memory.Allocate(static_cast<int64_t>(bytes.size()));
  memory.At(address).SetContent(ShadowContent::Host(bytes));
  return address;
}

inline uint64_t PoisonedStorage(ShadowMemory& memory, std::string_view type, int64_t elements) {
  const DType dtype = DTypeOf(type);
  const uint64_t address = memory.Allocate(elements * SizeOf(dtype));
  memory.At(address).SetContent(ShadowContent::Poison(dtype, 0));
  return address;
}

inline std::vector<double> ValuesOf(ShadowMemory& memory, uint64_t address, std::string_view type) {
  std::vector<double> values;
  const ShadowStorage& storage = memory.At(address);
  for (int64_t i = 0; i < storage.elements(); ++i)
    values.push_back(ElementValue(storage.Element(i), DTypeOf(type)));
  return values;
}

struct OperationCase {
  std::string text;  ///< "%r = ..." of %a, %b, %c, tensors of 8 lanes
  std::string type;  ///< of the operands
  std::string result_type;
  std::vector<std::vector<double>> operands;
};

/// The lanes of %r.
inline std::vector<double> RunOperation(const OperationCase& c, bool fuse = true) {
  std::string text = "module {\n  tt.func public @k(";
  for (size_t i = 0; i < c.operands.size(); ++i)
    text += fmt::format("%p{}: !tt.ptr<{}>, ", i, c.type);
  text += fmt::format(
      "%o: !tt.ptr<{0}>) {{\n    %l = tt.make_range {{end = 8 : i32, start = 0 : i32}} : "
      "tensor<8xi32>\n",
      c.result_type);
  for (size_t i = 0; i < c.operands.size(); ++i)
    text += fmt::format(
        "    %s{0} = tt.splat %p{0} : !tt.ptr<{2}> -> tensor<8x!tt.ptr<{2}>>\n"
        "    %q{0} = tt.addptr %s{0}, %l : tensor<8x!tt.ptr<{2}>>, tensor<8xi32>\n"
        "    %{1} = tt.load %q{0} : tensor<8x!tt.ptr<{2}>>\n",
        i, std::string(1, static_cast<char>('a' + i)), c.type);
  text += fmt::format(
      "    {1}\n    %so = tt.splat %o : !tt.ptr<{0}> -> tensor<8x!tt.ptr<{0}>>\n"
      "    %qo = tt.addptr %so, %l : tensor<8x!tt.ptr<{0}>>, tensor<8xi32>\n"
      "    tt.store %qo, %r : tensor<8x!tt.ptr<{0}>>\n    tt.return\n  }}\n}}\n",
      c.result_type, c.text);
  const ShadowProgram program = ProgramOf(text, {.fuse = fuse});
  if (program.parameters.empty()) return {};
  ShadowMemory memory;
  ShadowLaunch launch;
  launch.program = &program;
  for (std::vector<double> values : c.operands) {
    values.resize(8, values.empty() ? 0 : values.back());
    launch.arguments.push_back({StorageOf(memory, c.type, values)});
  }
  const uint64_t out = PoisonedStorage(memory, c.result_type, 8);
  launch.arguments.push_back({out});
  launch.instances = AllInstances(launch.grid);
  auto report = RunShadow(memory, launch);
  EXPECT_TRUE(report) << (report ? "" : report.error().ToString());
  if (report) {
    EXPECT_TRUE(report->findings.empty()) << Describe(report->findings[0]);
  }
  return ValuesOf(memory, out, c.result_type);
}

}  // namespace kernelopt
