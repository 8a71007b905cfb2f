// Generated-style modules for tests: tests/corpus/fixtures/*.py.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "inductor/module.h"

namespace kernelopt {

inline std::string FixtureText(const std::string& name) {
  const auto text = ReadFile(std::string(KERNELOPT_SOURCE_DIR) + "/tests/corpus/fixtures/" + name);
  EXPECT_TRUE(text) << text.error().ToString();
  return text.value_or("");
}

inline Module Read(const std::string& text) {
  auto module = ReadModule(text, "module.py");
  EXPECT_TRUE(module) << module.error().ToString();
  return module.value_or(Module{});
}

inline Module ReadFixture(const std::string& name) {
  return Read(FixtureText(name));
}

/// `text` with every `from` replaced; at least one must be there.
inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  for (; at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace kernelopt
