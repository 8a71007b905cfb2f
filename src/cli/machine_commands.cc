// Commands about this machine: doctor, verify.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "pipeline/doctor.h"
#include "pipeline/machine.h"
#include "pipeline/temporary_folder.h"
#include "pipeline/verify.h"

namespace kernelopt {
namespace {

/// A store that only lasts as long as the command.
struct Scratch {
  TemporaryFolder folder;
  std::unique_ptr<Store> store;
};

Result<Scratch> MakeScratch() {
  TemporaryFolder folder = KOPT_TRY(TemporaryFolder::Make("kernelopt"));
  std::unique_ptr<Store> store = KOPT_TRY(Store::Open(folder.path() + "/run", StoreMode::kCreate));
  return Scratch{std::move(folder), std::move(store)};
}

Environment MakeEnvironment(Machine& machine, Store& store, const Clock& clock, Output& output) {
  return Environment{.judge = &machine.judge(),
                     .model = &machine.model(),
                     .compiler = machine.compiler(),
                     .store = store,
                     .clock = clock,
                     .events = output.events(),
                     .cancelled = [] { return CancelRequested(); },
                     .cache = machine.cache(),
                     .version = KERNELOPT_VERSION,
                     .program = machine.program()};
}

}  // namespace

Status Doctor(Output& output, const CommonArguments& common) {
  auto machine = KOPT_TRY(Machine::Open(common.python));
  Scratch scratch = KOPT_TRY(MakeScratch());
  SystemClock clock;
  Environment environment = MakeEnvironment(*machine, *scratch.store, clock, output);
  RunEvent event;
  event.kind = RunEvent::Kind::kStepBegin;
  event.step = "doctor";
  output.events().Emit(event);
  DoctorReport report = Examine(environment, machine->python());
  event.kind = RunEvent::Kind::kStepEnd;
  event.outcome = "failed";  // no line of its own: the table follows
  output.events().Emit(event);
  std::string text;
  Json rows = Json::array();
  for (const DoctorRow& row : report.rows) {
    text += fmt::format("{:<9} {}{}\n", row.name, row.text, row.good ? "" : "  <-- missing");
    rows.push_back({{"name", row.name}, {"text", row.text}, {"good", row.good}});
  }
  output.Print(text, DumpJson({{"event", "doctor"}, {"rows", rows}}));
  return report.verdict;
}

Status Verify(Output& output, const CommonArguments& common, const std::string& pack,
              const std::string& model, const std::string& entry, bool quick) {
  RunOptions options;
  options.model = model;
  options.entry = entry;
  KOPT_CHECK_OK(CheckOptions(options));
  auto machine = KOPT_TRY(Machine::Open(common.python));
  Scratch scratch = KOPT_TRY(MakeScratch());
  SystemClock clock;
  Environment environment = MakeEnvironment(*machine, *scratch.store, clock, output);
  PackVerification verification = KOPT_TRY(
      VerifyPack(environment, {pack, {model, entry}, quick, scratch.folder.path() + "/capture"}));
  std::string text;
  Json kernels = Json::array(), variants = Json::array();
  for (const KernelComparison& kernel : verification.kernels) {
    text += fmt::format("{:<15} {}{}\n", ToString(kernel.state), kernel.name,
                        kernel.state == KernelState::kValid ? "" : ": " + kernel.message);
    kernels.push_back({{"id", kernel.id},
                       {"name", kernel.name},
                       {"state", ToString(kernel.state)},
                       {"message", kernel.message}});
  }
  for (const VariantVerification& variant : verification.variants) {
    text += fmt::format("{:<15} {}: {:.3f}x ({:.3f} to {:.3f}) now\n",
                        variant.slower ? "slower now" : "still faster", variant.name,
                        variant.effect.median, variant.effect.lower, variant.effect.upper);
    variants.push_back({{"name", variant.name},
                        {"slower", variant.slower},
                        {"median", variant.effect.median},
                        {"lo", variant.effect.lower},
                        {"hi", variant.effect.upper}});
  }
  output.Print(text,
               DumpJson({{"event", "verified"}, {"kernels", kernels}, {"variants", variants}}));
  return verification.verdict;
}

}  // namespace kernelopt
