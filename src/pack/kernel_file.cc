#include "pack/kernel_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace kernelopt {
namespace {

constexpr size_t kColumns = 96;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Adds comment lines with the words of `text`, which may hold anything: a
/// line end in it must not end the comment.
void AddComment(std::string& out, std::string_view text) {
  std::string line = "#";
  std::string word;
  const auto flush = [&] {
    if (word.empty()) return;
    if (line.size() > 1 && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = "#  ";
    }
    line += " " + word;
    word.clear();
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7f) {
      flush();
    } else {
      word += c;
    }
  }
  flush();
  out += line + "\n";
}

}  // namespace

std::string KernelFileText(const PackKernel& kernel) {
  const Replacement& replacement = kernel.replacement;
  std::string text;
  AddComment(text, fmt::format("{}: replaces the compiler's kernel of this name.", kernel.name));
  AddComment(text, fmt::format("Change: {}", replacement.change));
  AddComment(text, fmt::format("Made by: {}", replacement.origin));
  AddComment(text, fmt::format("Configuration: {}", replacement.steps.at(0).config.ToString()));
  if (kernel.compiler_us > 0 && kernel.ours_us > 0) {
    AddComment(
        text, fmt::format("Measured: {:.2f} us a launch, the compiler's {:.2f} us ({:.2f}x).",
                          kernel.ours_us, kernel.compiler_us, kernel.compiler_us / kernel.ours_us));
  }
  AddComment(text, fmt::format("Proven: {}.", kernel.label.empty() ? "not yet" : kernel.label));
  AddComment(text, fmt::format("Replacement: {}", replacement.Id()));
  return text + "\n" + replacement.steps.at(0).kernel_text;
}

std::string_view KernelTextOf(std::string_view file_text) {
  std::string_view rest = file_text;
  while (rest.starts_with('#')) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return file_text;
    rest.remove_prefix(end + 1);
  }
  if (rest.size() == file_text.size() || !rest.starts_with('\n')) return file_text;
  rest.remove_prefix(1);
  return rest;
}

std::string KernelFileStem(const PackKernel& kernel) {
  std::string name;
  for (const char c : kernel.name.substr(0, 80)) name += IsNameCharacter(c) ? c : '_';
  return fmt::format("{}_{}", name.empty() ? "kernel" : name, kernel.replacement.Id().substr(0, 8));
}

bool IsPackFileName(std::string_view name) {
  int parts = 0;
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    const bool plain = std::ranges::all_of(
        part, [](char c) { return IsNameCharacter(c) || c == '.' || c == '-' || c == '+'; });
    if (part.empty() || part.size() > 200 || part.front() == '.' || !plain || ++parts > 2) {
      return false;
    }
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace kernelopt
