#include "pipeline/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "pipeline/doctor.h"
#include "pipeline/gpu_lock.h"

namespace kernelopt {
namespace {

/// The first kernel in this state, and how many there are.
Status Complain(const PackVerification& verification, KernelState state, std::string_view code) {
  auto is = [&](const KernelComparison& kernel) { return kernel.state == state; };
  auto count = std::ranges::count_if(verification.kernels, is);
  if (count == 0) return {};
  const KernelComparison& first = *std::ranges::find_if(verification.kernels, is);
  return Fail(
      ErrorKind::kOutdated, code,
      fmt::format("{} of {} kernels: {} ({}: {}); the compiler's are used in their place, "
                  "run `kernelopt optimize` again",
                  count, verification.kernels.size(), ToString(state), first.name, first.message));
}

Status Conclude(const PackVerification& verification) {
  KOPT_CHECK_OK(Complain(verification, KernelState::kBinaryChanged, "binary_changed"));
  KOPT_CHECK_OK(Complain(verification, KernelState::kKeyGone, "key_gone"));
  for (const VariantVerification& variant : verification.variants) {
    if (!variant.slower) continue;
    return Fail(ErrorKind::kOutdated, "slower_now",
                fmt::format("{} is not faster any more: {:.3f}x ({:.3f} to {:.3f}); run `kernelopt "
                            "optimize` again, or don't load the pack",
                            variant.name, variant.effect.median, variant.effect.lower,
                            variant.effect.upper));
  }
  return {};
}

}  // namespace

Result<PackVerification> VerifyPack(Environment& environment, const VerifyRequest& request) {
  Pack pack = KOPT_TRY(CheckPack(request.pack));
  StepProgress progress(environment.events, environment.clock, "verify", 0);
  progress.Say("asking Python");
  HostFacts host = KOPT_TRY(ReadHost(*environment.model));
  if (!host.cuda) {
    return Fail(ErrorKind::kEnvironment, "no_gpu",
                "torch sees no NVIDIA GPU; verify the pack on a machine with one");
  }
  const DeviceFacts& device = host.device;
  PackGpu gpu{device.name, device.compute_capability, device.sm_count, device.mig};
  KOPT_CHECK_OK(MatchEnvironment(pack, gpu, host.torch, host.triton));
  GpuLock lock = KOPT_TRY(GpuLock::Take(
      device.uuid, environment.cache, [&] { progress.Say("waiting for another run"); },
      environment.cancelled));

  std::vector<VariantSpec> variants;
  for (const PackVariant& variant : pack.variants) {
    variants.push_back(
        {.mode = variant.mode, .train = variant.train, .input_set = variant.input_set});
  }
  KOPT_CHECK_OK(MakeFolder(request.capture_folder));
  auto say = [&](const std::string& step) { progress.Say(step); };
  KOPT_CHECK_OK(environment.model->Capture(request.model, variants, request.capture_folder, say));
  Capture fresh = KOPT_TRY(ReadCapture(request.capture_folder));

  PackVerification verification;
  verification.kernels =
      KOPT_TRY(ComparePack(pack, fresh,
                           [&](const std::string& source, const std::string& name,
                               const LaunchConfig& config) -> Result<std::string> {
                             progress.Say("compiling " + name);
                             CompileRequest compile;
                             compile.source = source;
                             compile.kernel_name = name;
                             compile.config = config;
                             compile.compute_capability = device.compute_capability;
                             CompileOutput output = KOPT_TRY(
                                 environment.compiler.CompileAll({compile}, [](size_t) {}).at(0));
                             return output.binary_hash;
                           }));
  for (size_t v = 0; v < variants.size() && !request.quick; ++v) {
    KOPT_CHECK_OK(environment.CheckCancelled());
    std::vector<ModelTiming> timings = KOPT_TRY(environment.model->Time(
        request.model, variants[v], request.pack, 1, kTimingPairs, kTimingBlocks, say));
    PerformanceEffect effect = KOPT_TRY(ComputeEffect(timings[0], {}));
    verification.variants.push_back({pack.variants[v].name, effect, effect.lower <= 1});
  }
  verification.verdict = Conclude(verification);
  return verification;
}

}  // namespace kernelopt
