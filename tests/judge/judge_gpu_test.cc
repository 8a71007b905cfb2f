// The judge on a real GPU: the generator against the CPU's, verdicts, respawns,
// guard pages, timing. `judge_gpu_test [FOLDER]` runs everything and leaves its
// kernels in the folder; started with `judge` it is the judge's child process.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "device/data.h"
#include "device/host_runtime.h"
#include "gpu_test.h"
#include "judge/client.h"
#include "judge/cuda_runtime.h"
#include "judge/server.h"
#include "test_kernels.h"

namespace kernelopt {

void Table::Row(bool ok, const std::string& name, const std::string& detail) {
  failures_ += !ok;
  fmt::print("{:4} {:40} {}\n", ok ? "ok" : "FAIL", name, detail);
  std::fflush(stdout);
}

ArgumentSpec StorageArgument(int storage) {
  ArgumentSpec argument;
  argument.storage = storage;
  return argument;
}

ArgumentSpec IntArgument(int64_t value) {
  ArgumentSpec argument;
  argument.kind = ArgumentSpec::Kind::kInt;
  argument.int_value = value;
  return argument;
}

StorageSpec FloatStorage(int64_t count, bool output) {
  StorageSpec spec;
  spec.bytes = 4 * count;
  if (output) spec.role = StorageRole::kPoison;
  spec.written = output;
  return spec;
}

Program Kernels::Make(const std::string& entry, int pointers, const std::string& scalars,
                      int64_t blocks) const {
  Program program;
  program.cubin_path = folder_ + "/test.ptx";
  program.record.entry = entry;
  program.record.threads = 256;
  program.grid = {blocks, 1, 1};
  int argument = 0;
  for (; argument < pointers; ++argument) {
    program.record.parameters.push_back({LaunchParameter::Kind::kPointer, 8, argument, 0, 1});
  }
  for (char scalar : scalars) {
    const bool is_float = scalar == 'f';
    program.record.parameters.push_back(
        {is_float ? LaunchParameter::Kind::kFloat : LaunchParameter::Kind::kInt,
         is_float ? 4 : scalar - '0', argument++, 0, 1});
  }
  return program;
}

Program Kernels::Add(const std::string& entry, int64_t n) const {
  return Make(entry, 3, "4", (n + 256) / 256);  // one thread more than elements
}

Program Kernels::AddShared(int64_t n) const {
  Program program = Add("add_shared", n);
  program.cubin_path = folder_ + "/shared.ptx";
  program.record.shared_bytes = 128 * 1024;
  return program;
}

Site Kernels::AddSite(int64_t n, int64_t size) const {
  Site site;
  site.name = "add";
  site.storages = {FloatStorage(size, false), FloatStorage(size, false), FloatStorage(size, true)};
  site.arguments = {StorageArgument(0), StorageArgument(1), StorageArgument(2), IntArgument(n)};
  return site;
}

namespace {

// OpenCL C has no word for dynamic shared memory: each thread's sum goes
// through a word beyond the first 48 KiB.
constexpr char kSharedPtx[] = R"(.version 7.0
.target sm_60
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry add_shared(.param .u64 pa, .param .u64 pb, .param .u64 pout, .param .u32 pn)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .f32 %f<4>;
  .reg .b64 %a<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [pn];
  setp.ge.u32 %p, %r4, %r5;
  @%p bra DONE;
  ld.param.u64 %a1, [pa];
  ld.param.u64 %a2, [pb];
  ld.param.u64 %a3, [pout];
  mul.wide.u32 %a4, %r4, 4;
  add.u64 %a1, %a1, %a4;
  add.u64 %a2, %a2, %a4;
  add.u64 %a3, %a3, %a4;
  ld.global.f32 %f1, [%a1];
  ld.global.f32 %f2, [%a2];
  add.rn.f32 %f3, %f1, %f2;
  mov.u64 %a5, memory;
  mul.wide.u32 %a6, %r3, 4;
  add.u64 %a5, %a5, %a6;
  st.shared.f32 [%a5+120000], %f3;
  ld.shared.f32 %f1, [%a5+120000];
  st.global.f32 [%a3], %f1;
DONE:
  ret;
}
)";

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Every family, type, envelope and perturbation, bit for bit.
Status CheckGenerator(CudaRuntime& gpu, Table& table) {
  constexpr int64_t kCount = 20'011;
  int wrong = 0;
  int cases = 0;
  std::string first;
  for (int dtype = KOPT_F16; dtype <= KOPT_BOOL; ++dtype) {
    StorageSpec spec;
    spec.dtype = static_cast<DType>(dtype);
    spec.bytes = kCount * SizeOf(spec.dtype);
    spec.int_low = dtype == KOPT_BOOL || dtype == KOPT_U8 ? 0 : -3;
    spec.int_high = dtype == KOPT_BOOL ? 1 : 100;
    spec.has_envelope = true;
    spec.float_low = -0.75;
    spec.float_high = 2.5;
    const Allocation at = KOPT_TRY(gpu.Allocate(spec.bytes, Placement::kMiddle));
    std::vector<char> bytes(static_cast<size_t>(spec.bytes));
    for (int variant = 0; variant < 10 * 2 * 3 + 2; ++variant, ++cases) {
      const int poison = variant - 60;  // the last two are poisons
      const DataSet data{static_cast<DataFamily>(variant % 10), 1337, variant / 10 % 2 == 1};
      const KoptDraw draw = KOPT_TRY(MakeDraw(spec, 5, data, variant / 20));
      if (poison >= 0) {
        KOPT_CHECK_OK(gpu.Poison(at.storage.pointer, kCount, spec.dtype, poison));
      } else {
        KOPT_CHECK_OK(gpu.Generate(at.storage.pointer, draw));
      }
      KOPT_CHECK_OK(gpu.CopyToHost(bytes.data(), at.storage.pointer, spec.bytes));
      for (int64_t i = 0; i < kCount; ++i) {
        const uint64_t wanted = poison >= 0 ? KoptPoison(static_cast<uint64_t>(i), dtype, poison)
                                            : DrawElement(draw, i);
        if (LoadElement(bytes.data(), i, spec.dtype) == wanted) continue;
        if (wrong++ == 0) {
          first = fmt::format("{} variant {} element {}", ToString(spec.dtype), variant, i);
        }
        break;
      }
    }
    gpu.Free(at);
  }
  table.Row(wrong == 0, "generator equals the CPU's, bitwise",
            wrong == 0 ? fmt::format("{} cases of {} elements", cases, kCount)
                       : fmt::format("{} of {} cases differ, first {}", wrong, cases, first));
  return {};
}

/// Comparison, conditioning and checksums against the host runtime's.
Status CheckComparison(CudaRuntime& gpu, Table& table) {
  HostRuntime host;
  constexpr int64_t kCount = 300'007;
  for (int dtype = KOPT_F16; dtype <= KOPT_BOOL; ++dtype) {
    StorageSpec spec;
    spec.dtype = static_cast<DType>(dtype);
    spec.bytes = kCount * SizeOf(spec.dtype);
    spec.int_high = 1;
    std::vector<KoptStats> stats;
    std::vector<uint64_t> sums;
    for (KernelRuntime* runtime : std::initializer_list<KernelRuntime*>{&gpu, &host}) {
      Allocation at[4];
      for (int k = 0; k < 2; ++k) {
        at[k] = KOPT_TRY(runtime->Allocate(spec.bytes, Placement::kMiddle));
        const DataSet data{DataFamily::kSpecial, 7, false};
        KOPT_CHECK_OK(
            runtime->Generate(at[k].storage.pointer, KOPT_TRY(MakeDraw(spec, 0, data, k))));
      }
      at[2] = KOPT_TRY(runtime->Allocate(4 * kCount, Placement::kMiddle));
      at[3] = KOPT_TRY(runtime->Allocate(8 * kCount, Placement::kMiddle));
      KOPT_CHECK_OK(runtime->FillBytes(at[2].storage, 0));
      const bool is_float = KoptIsFloat(dtype);
      if (is_float) {
        KOPT_CHECK_OK(runtime->AddConditioning(at[2].storage.pointer, at[0].storage.pointer,
                                               at[1].storage.pointer, kCount, spec.dtype, 16));
      }
      CompareRequest request;
      request.candidate = at[0].storage.pointer;
      request.reference = at[1].storage.pointer;
      request.count = kCount;
      request.dtype = spec.dtype;
      request.perturbations = 4;
      if (is_float) {
        request.conditioning = at[2].storage.pointer;
        request.twin = at[3].storage.pointer;
        KOPT_CHECK_OK(runtime->Widen(request.twin, request.reference, kCount, spec.dtype));
      }
      stats.push_back(KOPT_TRY(runtime->Compare(std::span(&request, 1)))[0]);
      const Region regions[] = {at[0].storage, at[2].storage, {at[1].storage.pointer + 3, 1001}};
      for (uint64_t sum : KOPT_TRY(runtime->Checksums(regions))) sums.push_back(sum);
      for (const Allocation& allocation : at) runtime->Free(allocation);
    }
    // The order of additions differs: the sum of squares to rounding, all else equal.
    const bool close = std::abs(stats[0].sum_z2 - stats[1].sum_z2) <= 1e-9 * stats[1].sum_z2;
    stats[0].sum_z2 = stats[1].sum_z2;
    const bool same = std::memcmp(&stats[0], &stats[1], sizeof(KoptStats)) == 0;
    const bool sums_same = std::equal(sums.begin(), sums.begin() + 3, sums.begin() + 3);
    table.Row(close && same && sums_same,
              fmt::format("comparison as on the CPU, {}", ToString(spec.dtype)),
              fmt::format("max z {:.3g}, {} differ", stats[0].max_z, stats[0].differing));
  }
  return {};
}

Status CheckTiming(Judge& judge, const Kernels& kernels, Table& table) {
  const DeviceFacts facts = KOPT_TRY(judge.Facts());
  const DeviceSpeeds speeds = KOPT_TRY(judge.Speeds());
  table.Row(speeds.dram_gb_s > 3500 && speeds.l2_gb_s > speeds.dram_gb_s, "speeds",
            fmt::format("DRAM {:.0f} GB/s, L2 {:.0f} GB/s", speeds.dram_gb_s, speeds.l2_gb_s));
  table.Row(speeds.empty_kernel_us > 0.3 && speeds.empty_kernel_us < 5, "empty kernel",
            fmt::format("{:.2f} us", speeds.empty_kernel_us));

  constexpr int64_t kGiB = int64_t{1} << 30;
  TimeJob copy;
  copy.site.name = "copy";
  copy.site.storages = {FloatStorage(kGiB / 4, false), FloatStorage(kGiB / 4, true)};
  copy.site.arguments = {StorageArgument(0), StorageArgument(1), IntArgument(kGiB / 16)};
  copy.programs.assign(3, kernels.Make("copy_pairs", 2, "8", 8 * facts.sm_count));
  copy.programs[1].record.entry = "nobody";
  copy.state = CacheState::kCold;
  const TimeResult result = KOPT_TRY(judge.Time(copy));
  const double us = Median(result.samples[0]);
  table.Row(2.0 * kGiB / us > 3.5e6, "copy of 1 GiB, cold",
            fmt::format("{:.1f} us, {:.0f} GB/s", us, 2.0 * kGiB / us / 1e3));
  table.Row(result.failures[1] == "job_error" && result.samples[2].size() == 20,
            "a missing program is charged alone", result.failures[1]);
  table.Row(std::abs(Median(result.samples[2]) / us - 1) < 0.01, "the same program twice",
            fmt::format("{:.2f} %", 100 * (Median(result.samples[2]) / us - 1)));

  // 3 x 1 MiB: read from DRAM or from L2.
  double medians[2];
  for (CacheState state : {CacheState::kCold, CacheState::kAsInModel}) {
    TimeJob job;
    constexpr int64_t kCount = 1 << 18;
    job.site = kernels.AddSite(kCount, kCount);
    job.programs = {kernels.Add("add", kCount), kernels.Add("add_swapped", kCount)};
    job.state = state;
    job.touched = {0, 1};
    const TimeResult times = KOPT_TRY(judge.Time(job));
    const double a = Median(times.samples[0]);
    const double b = Median(times.samples[1]);
    medians[state == CacheState::kAsInModel] = a;
    table.Row(a > 0.5 && a < 15 && std::abs(b / a - 1) < 0.05,
              state == CacheState::kCold ? "small kernel in a graph, cold"
                                         : "small kernel in a graph, as in the model",
              fmt::format("{:.3f} and {:.3f} us", a, b));
  }
  table.Row(medians[1] < medians[0], "L2 is faster than DRAM",
            fmt::format("{:.3f} and {:.3f} us", medians[1], medians[0]));

  TimeJob guilty;
  guilty.site = kernels.AddSite(1000, 1000);
  for (const char* entry : {"add", "add_illegal", "add_swapped", "add_hangs"}) {
    guilty.programs.push_back(kernels.Add(entry, 1000));
  }
  guilty.rounds = 5;
  guilty.time_limit_ms = 3000;
  const TimeResult charged = KOPT_TRY(judge.Time(guilty));
  table.Row(charged.failures == std::vector<std::string>{"", "sick_device", "", "timeout"} &&
                charged.samples[2].size() == 5,
            "guilty programs are charged alone",
            fmt::format("{}", fmt::join(charged.failures, "|")));
  return {};
}

/// The kernels' texts, and replay.json: the sum of rows, for a profiler.
Status WriteFiles(const std::string& folder) {
  KOPT_CHECK_OK(MakeFolder(folder));
  KOPT_CHECK_OK(WriteFileAtomic(folder + "/test.ptx", kTestPtx));
  KOPT_CHECK_OK(WriteFileAtomic(folder + "/shared.ptx", kSharedPtx));
  const Kernels kernels(folder);
  TimeJob job;
  job.site.name = "sums";
  job.site.storages = {FloatStorage(4096 * 1024, false), FloatStorage(4096, true)};
  job.site.arguments = {StorageArgument(0), StorageArgument(1)};
  job.programs = {kernels.Make("sum_tree", 2, "", 4096),
                  kernels.Make("sum_neighbours", 2, "", 4096)};
  return WriteFileAtomic(folder + "/replay.json", DumpJson(ToJson(job)));
}

Status RunAll(const std::string& folder, Table& table) {
  KOPT_CHECK_OK(WriteFiles(folder));
  {
    const std::unique_ptr<CudaRuntime> gpu = KOPT_TRY(CudaRuntime::Create());
    const DeviceFacts facts = KOPT_TRY(gpu->Facts());
    fmt::print("{} sm_{} {} SMs, L2 {} MiB, {} MiB, driver {}, {}\n", facts.name,
               facts.compute_capability, facts.sm_count, facts.l2_bytes >> 20,
               facts.memory_bytes >> 20, facts.driver, facts.uuid);
    KOPT_CHECK_OK(CheckGenerator(*gpu, table));
    KOPT_CHECK_OK(CheckComparison(*gpu, table));
    const Status replayed = RunReplay(*gpu, folder + "/replay.json");
    table.Row(replayed.has_value(), "replay", replayed ? "" : replayed.error().ToString());
  }
  JudgeClient judge({});
  const Kernels kernels(folder);
  if (Status status = CheckTiming(judge, kernels, table); !status) {
    table.Row(false, "timing", status.error().ToString());
  }
  RunCheckCases(judge, kernels, table);
  table.Row(judge.Release().has_value(), "release", fmt::format("{} starts", judge.starts()));
  return {};
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  using namespace kernelopt;
  if (argc > 1 && std::string_view(argv[1]) == "judge") return JudgeMain(argc - 2, argv + 2);
  Table table;
  const auto start = std::chrono::steady_clock::now();
  const std::string folder = argc > 1 ? argv[1] : "judge_gpu_test.files";
  if (Status status = RunAll(folder, table); !status) {
    fmt::print("{}\n", status.error().ToString());
    return static_cast<int>(status.error().kind);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{} failures, {:.1f} s\n", table.failures(), seconds.count());
  return table.failures() == 0 ? 0 : 1;
}
