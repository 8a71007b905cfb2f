#include "inductor/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "inductor/canonical.h"
#include "inductor/kernel_source.h"
#include "inductor/literal.h"
#include "syntax/tree.h"

namespace kernelopt {
namespace {

// "ReductionHint.INNER" -> "INNER"
std::string LastPart(std::string_view text) {
  const size_t dot = text.rfind('.');
  return std::string(dot == std::string_view::npos ? text : text.substr(dot + 1));
}

void FillFromSource(const KernelSource& source, Kernel& kernel) {
  kernel.entry = source.function.Field("name").Text();
  kernel.decorator = LastPart(source.heuristics.Field("function").Text());
  const Node size_hints = source.Keyword("size_hints");
  kernel.size_hints = size_hints.IsNull() ? Json::object() : ReadLiteral(size_hints);
  kernel.reduction_hint = LastPart(source.Keyword("reduction_hint").Text());
  kernel.tile_hint = LastPart(source.Keyword("tile_hint").Text());
  kernel.triton_meta = ReadLiteral(source.Keyword("triton_meta"));
  kernel.inductor_meta = ReadLiteral(source.Keyword("inductor_meta"));

  const auto text_of = [](const Json& object, const char* key) {
    const auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto mutated = kernel.inductor_meta->find("mutated_arg_names");
  if (mutated != kernel.inductor_meta->end() && mutated->is_array()) {
    for (const Json& name : *mutated) {
      if (name.is_string()) kernel.mutated.push_back(name.get<std::string>());
    }
  }
  kernel.grid_type = text_of(*kernel.inductor_meta, "grid_type");
  const Json* signature = nullptr;
  if (const auto it = kernel.triton_meta->find("signature");
      it != kernel.triton_meta->end() && it->is_object()) {
    signature = &*it;
  }
  for (const Parameter& parameter : Parameters(source.function)) {
    kernel.arguments.push_back({parameter.name, parameter.annotation,
                                signature ? text_of(*signature, parameter.name.c_str()) : ""});
  }
  kernel.function = source.entry.ByteSpan();
  kernel.key = CanonicalKernelKey(source);
}

// The call on the right of `NAME = async_compile.METHOD(...)`, or null.
struct Definition {
  Node name;
  Node call;
  std::string_view method;
};

std::optional<Definition> AsDefinition(Node statement) {
  constexpr std::string_view kObject = "async_compile.";
  if (!statement.Is("expression_statement")) return std::nullopt;
  const auto children = statement.NamedChildren();
  if (children.size() != 1 || !children[0].Is("assignment")) return std::nullopt;
  const Node left = children[0].Field("left"), right = children[0].Field("right");
  if (!left.Is("identifier") || !right.Is("call")) return std::nullopt;
  const std::string_view function = right.Field("function").Text();
  if (!function.starts_with(kObject)) return std::nullopt;
  return Definition{left, right, function.substr(kObject.size())};
}

class Reader {
 public:
  Reader(const Tree& tree, const std::string& file, Module& module)
      : tree_(tree), file_(file), module_(module) {}

  void Read() {
    std::string comments;  // directly above the next statement
    for (Node child : tree_.Root().Children()) {
      if (child.Is("comment")) {
        comments += child.Text();
        comments += '\n';
        continue;
      }
      if (module_.phase.empty()) module_.phase = PhaseOf(comments);
      if (const auto definition = AsDefinition(child)) ReadDefinition(child, *definition, comments);
      ReadAlias(child);
      comments.clear();
    }
    for (const Kernel& kernel : module_.kernels) kernel_names_.insert(kernel.name);
    ReadCode(tree_.Root(), "");
    for (const std::string& name : elsewhere_) module_.used_elsewhere.push_back(name);
    module_.key = CanonicalModuleKey(tree_, module_.kernels);
  }

 private:
  // "# AOT ID: ['3_inference']" -> "inference"
  static std::string PhaseOf(std::string_view comments) {
    const size_t at = comments.find("# AOT ID: [");
    if (at == std::string_view::npos) return {};
    const std::string_view line = comments.substr(at, comments.find('\n', at) - at);
    for (std::string_view phase : {"inference", "forward", "backward"}) {
      if (line.ends_with(fmt::format("_{}']", phase))) return std::string(phase);
    }
    return {};
  }

  // "# Original path: /home/me/kernels.py:12", which only user code has.
  static std::string UserPathOf(std::string_view comments) {
    constexpr std::string_view kMark = "# Original path:";
    const size_t at = comments.find(kMark);
    if (at == std::string_view::npos) return {};
    std::string_view path = comments.substr(at + kMark.size());
    path = path.substr(0, path.find('\n'));
    path.remove_prefix(std::min(path.find_first_not_of(' '), path.size()));
    return path.empty() ? "unknown" : std::string(path);
  }

  void ReadDefinition(Node statement, const Definition& definition, std::string_view comments) {
    const std::string name(definition.name.Text());
    if (definition.method != "triton") {
      objects_.insert(name);
      return;
    }
    const auto arguments = definition.call.Field("arguments").NamedChildren();
    if (arguments.size() < 2 || !arguments[0].Is("string") || !arguments[1].Is("string")) {
      objects_.insert(name);  // of a form that Inductor doesn't write: left alone
      return;
    }
    Kernel kernel;
    kernel.name = name;
    kernel.assignment = statement.ByteSpan();
    const auto quotes = arguments[1].Children();
    kernel.source = {quotes.front().ByteSpan().end, quotes.back().ByteSpan().begin};
    kernel.user_path = UserPathOf(comments);
    if (const auto device = ReadString(KeywordOf(definition.call, "device_str"))) {
      kernel.device_str = *device;
    }
    const auto entry = ReadString(arguments[0]);
    const auto text = ReadString(arguments[1]);
    if (entry && text) {
      kernel.entry = *entry;
      kernel.text = *text;
      const auto source = ParseKernelSource(kernel.text, name, kernel.entry);
      if (source) {
        FillFromSource(*source, kernel);
      } else {
        kernel.problem = source.error().ToString();
      }
    } else {
      kernel.problem = (entry ? text : entry).error().ToString();
    }
    if (kernel.key.empty()) kernel.key = Sha256Hex(kernel.source.In(module_.text));
    module_.kernels.push_back(std::move(kernel));
  }

  // `aten = torch.ops.aten`: a call aten.x(...) is a library call.
  void ReadAlias(Node statement) {
    if (!statement.Is("expression_statement")) return;
    const auto children = statement.NamedChildren();
    if (children.size() != 1 || !children[0].Is("assignment")) return;
    const Node right = children[0].Field("right");
    if (right.Is("attribute") && right.Text().starts_with("torch.ops.")) {
      aliases_.insert(std::string(children[0].Field("left").Text()));
    }
  }

  void ReadCode(Node node, const std::string& function) {
    if (node.Is("function_definition")) {
      const std::string name(node.Field("name").Text());
      if (name == "get_args" || name == "benchmark_compiled_module") return;
      for (Node child : node.NamedChildren()) ReadCode(child, name);
      return;
    }
    if (node.Is("call")) ReadCall(node, function);
    if (node.Is("identifier")) NoteUse(node);
    for (Node child : node.NamedChildren()) ReadCode(child, function);
  }

  void ReadCall(Node call, const std::string& function) {
    const Node target = call.Field("function");
    const std::string name = Compact(target.Text());
    const size_t dot = name.find('.');
    const std::string first = name.substr(0, dot);
    const bool is_run = dot != std::string::npos && name.substr(dot) == ".run";
    if (is_run && (kernel_names_.contains(first) || objects_.contains(first))) {
      Launch launch{first, function, call.ByteSpan(), {}, {}};
      for (Node argument : call.Field("arguments").NamedChildren()) {
        if (!argument.Is("keyword_argument")) launch.arguments.emplace_back(argument.Text());
      }
      launch.stream = KeywordOf(call, "stream").Text();
      launch_names_.insert(target.ByteSpan().begin);
      module_.launches.push_back(std::move(launch));
      return;
    }
    const bool is_library = name.starts_with("extern_kernels.") || name.starts_with("torch.ops.") ||
                            (dot != std::string::npos && aliases_.contains(first)) ||
                            (dot == std::string::npos && objects_.contains(first));
    if (!is_library || function.empty()) return;
    ExternCall extern_call{name, function, call.ByteSpan(), {}};
    for (Node argument : call.Field("arguments").NamedChildren()) {
      extern_call.arguments.emplace_back(argument.Text());
    }
    module_.externs.push_back(std::move(extern_call));
  }

  // A kernel's name that is neither its definition nor a launch.
  void NoteUse(Node identifier) {
    const std::string name(identifier.Text());
    if (!kernel_names_.contains(name)) return;
    const size_t begin = identifier.ByteSpan().begin;
    const auto defined = [&](const Kernel& kernel) {
      return kernel.name == name && kernel.assignment.begin == begin;
    };
    if (launch_names_.contains(begin) || std::ranges::any_of(module_.kernels, defined)) return;
    elsewhere_.insert(name);
  }

  const Tree& tree_;
  const std::string& file_;
  Module& module_;
  std::set<std::string> kernel_names_;
  std::set<std::string> objects_;  ///< other async_compile objects
  std::set<std::string> aliases_;  ///< names of torch.ops namespaces
  std::set<size_t> launch_names_;  ///< where the NAME of a launch begins
  std::set<std::string> elsewhere_;
};

}  // namespace

const KernelArgument* Kernel::FindArgument(std::string_view name) const {
  for (const KernelArgument& argument : arguments) {
    if (argument.name == name) return &argument;
  }
  return nullptr;
}

const Kernel* Module::FindKernel(std::string_view name) const {
  for (const Kernel& kernel : kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

Result<Module> ReadModule(std::string text, const std::string& file) {
  const Tree tree = KOPT_TRY(Tree::Parse(text, file));
  Module module;
  module.text = std::move(text);
  Reader(tree, file, module).Read();
  return module;
}

Result<Kernel> ReadKernelSource(std::string text, const std::string& file) {
  Kernel kernel;
  kernel.text = std::move(text);
  FillFromSource(KOPT_TRY(ParseKernelSource(kernel.text, file, "")), kernel);
  kernel.name = kernel.entry;
  return kernel;
}

}  // namespace kernelopt
