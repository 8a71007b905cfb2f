#include "inductor/canonical.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/hash.h"
#include "inductor/literal.h"

namespace kernelopt {
namespace {

// Bump when the canonical text changes, so that old keys miss, never mismatch.
constexpr std::string_view kKernelFormat = "kernelopt kernel 1\n";
constexpr std::string_view kModuleFormat = "kernelopt module 1\n";

constexpr std::array<std::string_view, 8> kTritonMeta = {
    "signature",   "constants",     "configs",    "enable_fp_fusion",
    "disable_ftz", "native_matmul", "launch_pdl", "launch_cooperative_grid"};
constexpr std::array<std::string_view, 2> kInductorMeta = {"mutated_arg_names", "grid_type"};

// Names of a kernel source's entry become this; a space can't be in a name.
constexpr std::string_view kEntryName = "<the kernel>";

bool IsMainGuard(Node statement) {
  return statement.Is("if_statement") &&
         statement.Field("condition").Text().starts_with("__name__");
}

// A statement of a kernel source that says nothing of what is computed: it is
// the same in every source, or only benchmarks the kernel.
bool IsFrame(Node statement) {
  return statement.Is("import_statement") || statement.Is("import_from_statement") ||
         statement.Is("future_import_statement") || statement.Is("function_definition") ||
         IsMainGuard(statement) || statement.Text().starts_with("triton_helpers.set_driver_to_");
}

bool IsTail(Node statement) {
  if (statement.Is("function_definition")) {
    const std::string_view name = statement.Field("name").Text();
    return name == "get_args" || name == "benchmark_compiled_module";
  }
  return IsMainGuard(statement);
}

// '#include "/tmp/x/ab/cabc.h"' -> '#include "cabc.h"': the folder is the cache
// of one user on one machine.
std::string WithoutIncludeFolders(std::string_view text) {
  std::string out;
  while (true) {
    const size_t include = text.find("#include \"");
    if (include == std::string_view::npos) return out += text;
    const size_t begin = include + std::string_view("#include \"").size();
    const size_t end = std::min(text.find_first_of("\"\n", begin), text.size());
    const size_t slash = text.substr(0, end).rfind('/');
    out += text.substr(0, begin);
    const size_t name = slash == std::string_view::npos || slash < begin ? begin : slash + 1;
    out += text.substr(name, end - name);
    text.remove_prefix(end);
  }
}

// The index of the only GPU that a module uses.
std::optional<std::string> OnlyDevice(Node root) {
  std::set<std::string> found;
  Walk(root, [&](Node node) {
    if (!node.Is("call")) return true;
    const std::string_view name = node.Field("function").Text();
    if (name.ends_with("_DeviceGuard") || name.ends_with("set_device") ||
        name == "get_raw_stream") {
      const auto arguments = node.Field("arguments").NamedChildren();
      found.insert(arguments.size() == 1 ? std::string(arguments[0].Text()) : "several");
    }
    return true;
  });
  if (found.size() != 1 || found.begin()->find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return *found.begin();
}

// Rewrites the tokens of a module for a GPU of another index to index 0.
class DeviceNormaliser {
 public:
  explicit DeviceNormaliser(std::optional<std::string> device) : device_(std::move(device)) {
    if (device_) {
      stream_ = "stream" + *device_;
      spelled_ = "cuda:" + *device_;
    }
  }

  // The texts of the last two tokens tell what an integer is.
  std::string Apply(const Token& token, std::string_view before, std::string_view last) const {
    const std::string text(token.text);
    if (!device_) return text;
    if (token.kind == Token::Kind::kName) return text == stream_ ? "stream0" : text;
    if (token.kind == Token::Kind::kString) return WithDevice0(text);
    const bool is_argument = last == "(" && (before == "_DeviceGuard" || before == "set_device" ||
                                             before == "get_raw_stream");
    const bool is_index = last == "=" && before == "index";
    return text == *device_ && (is_argument || is_index) ? "0" : text;
  }

 private:
  std::string WithDevice0(std::string text) const {
    for (size_t at = text.find(spelled_); at != std::string::npos;
         at = text.find(spelled_, at + 1)) {
      const size_t end = at + spelled_.size();
      if (end < text.size() && text[end] >= '0' && text[end] <= '9') continue;
      text.replace(at, spelled_.size(), "cuda:0");
    }
    return text;
  }

  std::optional<std::string> device_;
  std::string stream_;
  std::string spelled_;
};

// The tokens of several statements with some texts replaced. Token texts are
// views; the replaced ones live here.
class TokenText {
 public:
  void Add(Token token, std::string text) {
    texts_.push_back(std::make_unique<std::string>(std::move(text)));
    token.text = *texts_.back();
    tokens_.push_back(token);
  }
  void Add(const Token& token) { tokens_.push_back(token); }
  void EndStatement() { tokens_.push_back({Token::Kind::kNewline, {}, {}}); }
  std::string Text() const { return CanonicalText(tokens_); }

 private:
  std::vector<Token> tokens_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

void AddRenamed(Node node, std::string_view name, TokenText& out) {
  for (const Token& token : Tokens(node)) {
    if (token.kind == Token::Kind::kName && token.text == name) {
      out.Add(token, std::string(kEntryName));
    } else {
      out.Add(token);
    }
  }
  out.EndStatement();
}

}  // namespace

std::string CanonicalKernelText(const KernelSource& source) {
  std::string text(kKernelFormat);
  const std::string_view kind = source.heuristics.Field("function").Text();
  text += fmt::format("decorator {}\n", Compact(kind));
  text += fmt::format("size_hints {}\n", CanonicalText(source.Keyword("size_hints")));
  const auto add = [&](Node meta, std::string_view key) {
    const Node value = ValueOf(meta, key);
    if (!value.IsNull()) text += fmt::format("{} {}\n", key, CanonicalText(value));
  };
  for (std::string_view key : kTritonMeta) add(source.Keyword("triton_meta"), key);
  for (std::string_view key : kInductorMeta) add(source.Keyword("inductor_meta"), key);

  const std::string_view name = source.function.Field("name").Text();
  TokenText functions;
  for (Node statement : source.tree.Root().NamedChildren()) {
    if (IsFrame(statement) || IsDocstring(statement)) continue;
    if (statement.ByteSpan() != source.entry.ByteSpan()) {
      AddRenamed(statement, name, functions);
      continue;
    }
    for (Node decorator : Decorators(source.entry)) {
      if (decorator.ByteSpan() != source.heuristics.ByteSpan()) {
        AddRenamed(decorator, name, functions);
      }
    }
    AddRenamed(source.function, name, functions);
  }
  return text + functions.Text();
}

std::string CanonicalKernelKey(const KernelSource& source) {
  return Sha256Hex(CanonicalKernelText(source));
}

std::string CanonicalModuleText(const Tree& tree, const std::vector<Kernel>& kernels) {
  std::map<std::string_view, std::string> names;  // variable -> canonical name
  std::map<size_t, const Kernel*> sources;        // where a source's string begins
  for (size_t i = 0; i < kernels.size(); ++i) {
    names.emplace(kernels[i].name, fmt::format("<kernel {}>", i));
    sources.emplace(kernels[i].source.begin, &kernels[i]);
  }
  const DeviceNormaliser device(OnlyDevice(tree.Root()));
  TokenText out;
  for (Node statement : tree.Root().NamedChildren()) {
    if (IsTail(statement) || IsDocstring(statement)) continue;
    std::string before, last;  // texts of the two tokens before, as they were written
    for (const Token& token : Tokens(statement)) {
      const auto add = [&](std::string text) { out.Add(token, std::move(text)); };
      const Span span = token.node.ByteSpan();
      const auto source =
          token.kind == Token::Kind::kString ? sources.lower_bound(span.begin) : sources.end();
      const auto name = names.find(token.text);
      if (token.text.empty()) {
        out.Add(token);
      } else if (source != sources.end() && source->first < span.end) {
        add(fmt::format("<source {}>", source->second->key));
      } else if (token.kind == Token::Kind::kName && name != names.end()) {
        add(name->second);
      } else if (const auto value = token.kind == Token::Kind::kString
                                        ? ReadString(token.node)
                                        : Result<std::string>(std::string());
                 value && names.contains(*value)) {
        add(names[*value]);
      } else if (token.kind == Token::Kind::kString) {
        add(WithoutIncludeFolders(device.Apply(token, before, last)));
      } else {
        add(device.Apply(token, before, last));
      }
      before = std::exchange(last, std::string(token.text));
    }
    out.EndStatement();
  }
  return std::string(kModuleFormat) + out.Text();
}

std::string CanonicalModuleKey(const Tree& tree, const std::vector<Kernel>& kernels) {
  return Sha256Hex(CanonicalModuleText(tree, kernels));
}

}  // namespace kernelopt
