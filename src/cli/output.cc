#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace kernelopt {
namespace {

OutputStyle StyleFor(bool json) {
  if (json) return OutputStyle::kJson;
  return isatty(STDOUT_FILENO) ? OutputStyle::kTerminal : OutputStyle::kPlain;
}

}  // namespace

Output::Output(bool json) : json_(json), sink_(MakeSink(StyleFor(json), STDOUT_FILENO)) {}

void Output::Print(const std::string& human, const std::string& data) {
  const std::string& text = json_ ? data : human;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', stdout);
}

int Output::Finish(const Status& status) {
  sink_.reset();  // takes a live line away
  if (status) {
    // A full disk shows only now; an answer that was lost must not look given.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      std::fputs("kernelopt: standard output can't be written; free some space\n", stderr);
      return static_cast<int>(ErrorKind::kEnvironment);
    }
    return exit_code_;
  }
  const Error& error = status.error();
  if (json_) {
    Json line = {{"event", "error"},
                 {"kind", KindName(error.kind)},
                 {"code", error.code},
                 {"message", error.message},
                 {"where", error.where}};
    std::fputs((DumpJson(line) + "\n").c_str(), stdout);
    std::fflush(stdout);
  }
  std::fputs(ErrorLine(error).c_str(), stderr);
  return static_cast<int>(error.kind);
}

std::string ErrorLine(const Error& error) {
  std::string text = error.ToString();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';  // one line, whatever it quotes
  }
  return "kernelopt: " + text + "\n";
}

}  // namespace kernelopt
