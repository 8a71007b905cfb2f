// The command line: what can be asked, as a straight list. Each command is one
// function of commands.h; what it needs is made there.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <span>
#include <string_view>

#include "base/cancel.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "judge/server.h"

namespace kernelopt {
namespace {

/// The first Ctrl-C asks to stop, the second ends at once.
void OnSignal(int signal) {
  RequestCancel();
  std::signal(signal, SIG_DFL);
}

/// CLI11's messages can have several lines; ours are one sentence.
Error UsageError(const CLI::ParseError& error, const CLI::App& app) {
  std::string message = error.what();
  if (size_t end = message.find('\n'); end != std::string::npos) message.resize(end);
  if (app.get_subcommands().empty() && message.starts_with("A subcommand")) {
    std::vector<std::string> rest = app.remaining();
    message = rest.empty() ? "a command is missing, for instance `kernelopt optimize MODEL.py`"
                           : "there is no command '" + rest[0] + "'";
  }
  while (!message.empty() && message.back() == '.') message.pop_back();
  std::string command;
  for (const CLI::App* sub : app.get_subcommands()) command = sub->get_name() + " ";
  return {ErrorKind::kUsage, "usage", message + "; see `kernelopt " + command + "--help`", ""};
}

/// The options of `optimize` and `estimate` that say what the model is.
struct ModelArguments {
  RunOptions options;
  std::string modes = "default";
  std::string budget = "10m";
  std::string folder;
};

void AddModelArguments(CLI::App* command, ModelArguments* arguments, const char* out) {
  command
      ->add_option("--entry", arguments->options.entry,
                   "a function that returns (model, args, kwargs),\n"
                   "instead of the file's Model and get_inputs")
      ->type_name("MODULE:FUNCTION");
  command
      ->add_option("--modes", arguments->modes,
                   "torch.compile modes, with commas: default,\n"
                   "reduce-overhead, max-autotune,\n"
                   "max-autotune-no-cudagraphs")
      ->type_name("MODES")
      ->capture_default_str();
  command->add_flag("--train", arguments->options.train, "also cover a training step of each mode");
  command->add_option("--out", arguments->folder, out)->type_name("FOLDER");
}

Result<RunOptions> Complete(const ModelArguments& arguments) {
  RunOptions options = arguments.options;
  options.modes = KOPT_TRY(ParseModes(arguments.modes));
  options.budget_s = ParseDuration(arguments.budget);
  if (options.budget_s <= 0) {
    return Fail(ErrorKind::kUsage, "bad_option",
                "--budget is '" + arguments.budget + "'; give a time, for instance 10m or 90s");
  }
  return options;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Makes the Triton kernels of a model that torch.compile has compiled faster,\n"
      "proves each replacement, and puts the proven ones back. What can't be proven\n"
      "stays the compiler's.",
      "kernelopt"};
  app.set_version_flag("--version", "kernelopt " KERNELOPT_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "--python and --json go with every command.\n"
      "Exit codes: 0 finished (improved or kept), 2 usage, 3 environment, 4 the model\n"
      "itself fails, 5 interrupted, 6 `try`: the candidate was rejected, 7 `verify`: a\n"
      "pack for another GPU or version, 8 `verify`: a pack that is no longer good,\n"
      "1 our own fault.\n");
  CommonArguments common;
  bool json = false;
  app.add_option("--python", common.python,
                 "the Python that has torch (default:\n$KERNELOPT_PYTHON, else python3)")
      ->type_name("PATH");
  app.add_flag("--json", json, "answers and progress as JSON lines");

  std::function<Status(Output&)> chosen;
  auto command = [&](const char* name, const char* what, std::function<Status(Output&)> run) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->callback([&chosen, run = std::move(run)] { chosen = run; });
    return sub;
  };
  // A positional argument, always needed.
  auto positional = [](CLI::App* sub, const char* name, std::string* value, const char* what) {
    sub->add_option(name, *value, what)->required()->type_name("");
  };

  ModelArguments model;
  std::string run, recorded_model, kernel, candidate, verdict, pack, module;
  bool quick = false;

  CLI::App* sub = command(
      "estimate", "What a model could gain, at most (a minute)", [&](Output& output) -> Status {
        return EstimateModel(output, common, KOPT_TRY(Complete(model)), model.folder);
      });
  positional(sub, "MODEL.py", &model.options.model,
             "a file with Model, get_inputs, get_init_inputs");
  AddModelArguments(sub, &model, "keep the capture here (default: keep nothing)");

  sub = command("optimize", "Search, prove and pack faster kernels for a model",
                [&](Output& output) -> Status {
                  return Optimize(output, common, KOPT_TRY(Complete(model)), model.folder);
                });
  CLI::Option* file = sub->add_option("MODEL.py", model.options.model,
                                      "a file with Model, get_inputs, get_init_inputs");
  CLI::Option* recording = sub->add_option("--recording", model.options.recording,
                                           "a recorded capture instead of a model: extract,\n"
                                           "compile and check without a GPU");
  file->type_name("");
  recording->type_name("FOLDER")->excludes(file);
  AddModelArguments(sub, &model,
                    "the run's folder (default: MODEL.kopt-run in the\n"
                    "current folder)");
  sub->add_option("--budget", model.budget, "time for the search")
      ->type_name("TIME")
      ->capture_default_str();
  sub->add_option("--min-gain", model.options.min_gain,
                  "least gain of the whole model, 0.005 = 0.5 %")
      ->type_name("SHARE")
      ->capture_default_str();
  sub->add_option("--policy", model.options.policy,
                  "strict: nothing less exact than the compiler's;\n"
                  "bitwise: every bit equal")
      ->type_name("POLICY")
      ->capture_default_str();
  sub->add_flag("--allow-weaker", model.options.allow_weaker,
                "accept a model that no float64 can check");

  sub = command("resume", "Go on with a run that was stopped",
                [&](Output& output) { return Resume(output, common, run, recorded_model); });
  positional(sub, "RUN", &run, "the run's folder");
  sub->add_option("--model", recorded_model,
                  "of a run on a recording: the model itself,\n"
                  "to go on with on a GPU")
      ->type_name("MODEL.py");

  sub = command("show", "What a run found, or all about one of its kernels",
                [&](Output& output) { return Show(output, run, kernel); });
  positional(sub, "RUN", &run, "the run's folder");
  sub->add_option("KERNEL", kernel, "name or key of a kernel, or the beginning of one")
      ->type_name("");

  sub = command("report", "Write the run's report.html again",
                [&](Output& output) { return Report(output, run); });
  positional(sub, "RUN", &run, "the run's folder");

  sub = command("replay", "One verdict of a run again, alone",
                [&](Output& output) { return Replay(output, common, run, verdict); });
  positional(sub, "RUN", &run, "the run's folder");
  positional(sub, "VERDICT", &verdict, "its name as `kernelopt show RUN KERNEL` prints it");

  sub = command("try", "A kernel that you wrote, through the gates",
                [&](Output& output) { return Try(output, common, run, kernel, candidate); });
  positional(sub, "RUN", &run, "the run's folder");
  positional(sub, "KERNEL", &kernel, "name or key of a kernel, or the beginning of one");
  positional(sub, "CANDIDATE.py", &candidate,
             "its kernel text, after comment lines such as\n"
             "'# Configuration: XBLOCK=64 warps=8'");

  sub =
      command("verify", "Is a pack still valid for a model on this machine?", [&](Output& output) {
        return Verify(output, common, pack, model.options.model, model.options.entry, quick);
      });
  positional(sub, "PACK", &pack, "the pack's folder, NAME.kopt");
  positional(sub, "MODEL.py", &model.options.model, "the model that it was made for");
  sub->add_option("--entry", model.options.entry, "as for optimize")->type_name("MODULE:FUNCTION");
  sub->add_flag("--quick", quick, "keys and binaries only, no timing");

  sub = command("doctor", "What this machine has, how fast its GPU is",
                [&](Output& output) { return Doctor(output, common); });

  sub = command("inspect", "What is in a module that torch.compile generated",
                [&](Output& output) { return Inspect(output, module); });
  positional(sub, "MODULE.py", &module, "the generated module");

  sub = command("resolve", "For the loader: what a pack has for a module",
                [&](Output& output) { return ResolvePack(output, pack, module); });
  positional(sub, "PACK", &pack, "the pack's folder");
  positional(sub, "MODULE.py", &module, "the generated module");

  sub = command("check-pack", "For the loader: is a pack whole and unchanged?",
                [&](Output& output) { return CheckPackCommand(output, pack); });
  positional(sub, "PACK", &pack, "the pack's folder");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // --help, --version
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    // The flag may stand behind what could not be parsed.
    json |= std::ranges::count(std::span(argv, argc), std::string_view("--json")) > 0;
    return Output(json).Finish(std::unexpected(UsageError(error, app)));
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  Output output(json);
  return output.Finish(chosen(output));
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  // A descriptor that was closed would be given to the next file that is opened,
  // and what is printed would go into it.
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;
    close(fd);
    break;
  }
  // Not for people: the child process that runs cubins (judge/server.h).
  if (argc > 1 && std::string_view(argv[1]) == "judge") {
    return kernelopt::JudgeMain(argc - 2, argv + 2);
  }
  return kernelopt::Main(argc, argv);
}
