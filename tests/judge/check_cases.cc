#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "gpu_test.h"

namespace kernelopt {
namespace {

CheckJob MakeJob(Site site, Program baseline, Program candidate) {
  CheckJob job;
  job.site = std::move(site);
  job.baseline = std::move(baseline);
  job.candidate = std::move(candidate);
  job.data = {{DataFamily::kNormal, 0, false},
              {DataFamily::kUniform, 42, false},
              {DataFamily::kCancelling, 1337, false},
              {DataFamily::kSpecial, 0, false}};
  job.time_limit_ms = 4000;
  return job;
}

/// The reason, or the error's code.
void Expect(Judge& judge, Table& table, const std::string& name, const CheckJob& job,
            const std::string& wanted) {
  const auto start = std::chrono::steady_clock::now();
  auto result = judge.Check(job);
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  const std::string found = result ? result->reason : result.error().code;
  std::string detail = found == wanted ? found : fmt::format("{}, wanted {}", found, wanted);
  if (result && result->ok()) {
    double max_z = 0;
    for (const DataSetResult& set : result->sets) max_z = std::max(max_z, set.max_z);
    detail += fmt::format("{}, max z {:.3g}", result->bitwise_equal ? " bitwise" : "", max_z);
  } else if (found != wanted) {
    detail += ": " + (result ? result->message : result.error().ToString());
  }
  table.Row(found == wanted, "check " + name, fmt::format("{} ({:.0f} ms)", detail, ms.count()));
}

void AddCases(Judge& judge, const Kernels& kernels, Table& table) {
  constexpr int64_t kCount = 100'000;
  struct Case {
    const char* entry;
    const char* wanted;
  };
  for (const Case& c : {Case{"add", "ok"},
                        {"add_swapped", "ok"},
                        {"add_short", "not_written"},
                        {"add_none", "not_written"},
                        {"add_long", "wrote_outside"},
                        {"add_before", "wrote_outside"},
                        {"add_to_input", "changed_input"},
                        {"add_off", "wrong_value"},
                        {"add_nan", "wrong_nonfinite"},
                        {"add_clock", "not_deterministic"},
                        {"add_illegal", "sick_device"},
                        {"add", "ok"},
                        {"add_hangs", "timeout"},
                        {"add_swapped", "ok"},
                        {"no_such_kernel", "job_error"}}) {
    Expect(judge, table, c.entry,
           MakeJob(kernels.AddSite(kCount, kCount), kernels.Add("add", kCount),
                   kernels.Add(c.entry, kCount)),
           c.wanted);
  }
  Expect(judge, table, "add_long inside a longer storage",
         MakeJob(kernels.AddSite(kCount, kCount + 100), kernels.Add("add", kCount),
                 kernels.Add("add_long", kCount)),
         "wrote_outside");
  CheckJob bitwise = MakeJob(kernels.AddSite(kCount, kCount), kernels.Add("add", kCount),
                             kernels.Add("add_swapped", kCount));
  bitwise.rule.bitwise = true;
  Expect(judge, table, "add_swapped, bitwise", bitwise, "ok");
  // Bytes that no page of memory could hold.
  CheckJob large = MakeJob(kernels.AddSite(int64_t{1} << 40, int64_t{1} << 40),
                           kernels.Add("add", kCount), kernels.Add("add", kCount));
  Expect(judge, table, "4 TiB", large, "out_of_memory");

  Program scratch = kernels.Add("add_scratch", kCount);
  for (int64_t bytes : {0, 1024}) {
    scratch.record.parameters.push_back({LaunchParameter::Kind::kScratch, 8, -1, bytes, 128});
  }
  Expect(judge, table, "add_scratch",
         MakeJob(kernels.AddSite(kCount, kCount), kernels.Add("add", kCount), scratch), "ok");
  Expect(judge, table, "128 KiB of shared memory",
         MakeJob(kernels.AddSite(kCount, kCount), kernels.Add("add", kCount),
                 kernels.AddShared(kCount)),
         "ok");
  Program cooperative = kernels.Add("add", 10'000);
  cooperative.record.cooperative = true;
  Expect(judge, table, "cooperative launch",
         MakeJob(kernels.AddSite(10'000, 10'000), kernels.Add("add", 10'000), cooperative), "ok");
  Program clusters = kernels.Add("add", kCount);
  clusters.record.num_ctas = 2;
  clusters.grid[0] = (clusters.grid[0] + 1) / 2;
  Expect(judge, table, "clusters of 2",
         MakeJob(kernels.AddSite(kCount, kCount), kernels.Add("add", kCount), clusters), "ok");
}

void GuardCases(Judge& judge, const Kernels& kernels, Table& table) {
  constexpr int64_t kCount = 1 << 20;  // a multiple of 16 bytes, and of the page
  for (const auto& [entry, guarded, wanted] : {std::tuple{"add", true, "ok"},
                                               {"add_reads_behind", false, "ok"},
                                               {"add_reads_behind", true, "sick_device"},
                                               {"add_reads_before", true, "sick_device"},
                                               {"add_long", true, "sick_device"}}) {
    CheckJob job = MakeJob(kernels.AddSite(kCount, kCount), kernels.Add("add", kCount),
                           kernels.Add(entry, kCount));
    job.guard_pages = guarded;
    Expect(judge, table, fmt::format("{}{}", entry, guarded ? ", guard pages" : ""), job, wanted);
  }
  // Not a whole number of pages: canaries at the open side.
  CheckJob ragged = MakeJob(kernels.AddSite(12'340, 12'340), kernels.Add("add", 12'340),
                            kernels.Add("add_before", 12'340));
  ragged.guard_pages = true;
  Expect(judge, table, "add_before, guard pages, ragged", ragged, "wrote_outside");
}

void OtherCases(Judge& judge, const Kernels& kernels, Table& table) {
  // In place: one storage in both slots.
  Site scale;
  scale.name = "scale";
  StorageSpec x = FloatStorage(5000, false);
  x.written = true;
  ArgumentSpec factor;
  factor.kind = ArgumentSpec::Kind::kFloat;
  factor.float_value = 3;
  scale.storages = {x};
  scale.arguments = {StorageArgument(0), StorageArgument(0), factor, IntArgument(5000)};
  for (const auto& [entry, wanted] : {std::pair{"scale", "ok"}, {"scale_other", "wrong_value"}}) {
    Expect(judge, table, std::string(entry) + ", in place",
           MakeJob(scale, kernels.Make("scale", 2, "f8", 20), kernels.Make(entry, 2, "f8", 20)),
           wanted);
  }
  Site sums;
  sums.name = "sums";
  sums.storages = {FloatStorage(4096 * 1024, false), FloatStorage(4096, true)};
  sums.arguments = {StorageArgument(0), StorageArgument(1)};
  for (const auto& [entry, wanted] : {std::pair{"sum_tree", "ok"},
                                      {"sum_neighbours", "ok"},
                                      {"sum_chain", "wrong_value"},
                                      {"sum_drops_last", "wrong_value"},
                                      {"sum_of_1023", "wrong_value"}}) {
    Expect(judge, table, entry,
           MakeJob(sums, kernels.Make("sum_tree", 2, "", 4096), kernels.Make(entry, 2, "", 4096)),
           wanted);
  }
  Site gather;
  gather.name = "gather";
  StorageSpec index;
  index.dtype = DType::kInt64;
  index.bytes = 8 * 3000;
  index.int_high = 99;
  gather.storages = {FloatStorage(100, false), index, FloatStorage(3000, true)};
  gather.arguments = {StorageArgument(0), StorageArgument(1), StorageArgument(2),
                      IntArgument(3000)};
  for (const auto& [entry, wanted] :
       {std::pair{"gather", "ok"}, {"gather_clamped", "wrong_value"}}) {
    Expect(judge, table, entry,
           MakeJob(gather, kernels.Make("gather", 3, "4", 12), kernels.Make(entry, 3, "4", 12)),
           wanted);
  }
  constexpr int64_t kBytes = (int64_t{1} << 31) + 1000;
  Site bytes;
  bytes.name = "bytes";
  StorageSpec from;
  from.dtype = DType::kInt8;
  from.bytes = kBytes;
  from.int_low = -128;
  from.int_high = 127;
  StorageSpec to = from;
  to.role = StorageRole::kPoison;
  to.written = true;
  bytes.storages = {from, to};
  bytes.arguments = {StorageArgument(0), StorageArgument(1), IntArgument(kBytes)};
  for (const auto& [entry, wanted] :
       {std::pair{"bytes_copy", "ok"}, {"bytes_copy_int32", "not_written"}}) {
    CheckJob job =
        MakeJob(bytes, kernels.Make("bytes_copy", 2, "8", 1056), kernels.Make(entry, 2, "8", 1056));
    job.data.resize(1);
    job.time_limit_ms = 20000;
    Expect(judge, table, std::string(entry) + " of 2^31 + 1000", job, wanted);
  }
}

}  // namespace

void RunCheckCases(Judge& judge, const Kernels& kernels, Table& table) {
  AddCases(judge, kernels, table);
  GuardCases(judge, kernels, table);
  OtherCases(judge, kernels, table);
}

}  // namespace kernelopt
