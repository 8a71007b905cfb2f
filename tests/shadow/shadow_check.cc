// Puts planted faults (plant.py) before the judge of the shadow device:
//
//   shadow_check FOLDER WORK
//
// FOLDER: jobs.json and its files (jobs.h), and faults.json: [{"job": index, "ttir": the
// candidate's text, or absent for the job's own, "grid": the candidate's}]. WORK: lanes that a
// sampled launch may compute. Prints a line of JSON a fault: {"reason", "message", "share",
// "line", "other_line" of a finding}; the reason of an error is its code. Exit code 1 where
// FOLDER can't be read.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "jobs.h"
#include "shadow/shadow_judge.h"

namespace kernelopt {
namespace {

Status JudgeAll(const std::string& folder, int64_t work) {
  const auto read = [&](const std::string& name) -> Result<Json> {
    return ParseJson(KOPT_TRY(ReadFile(folder + "/" + name)), name);
  };
  const Json jobs = KOPT_TRY(read("jobs.json"));
  const Json faults = KOPT_TRY(read("faults.json"));
  for (const Json& fault : faults) {
    const ShadowJob base = KOPT_TRY(ReadShadowJob(jobs.at(fault.at("job").get<size_t>()), folder));
    CheckJob job;
    job.site = base.site;
    job.baseline = job.candidate = base.program;
    if (fault.contains("ttir"))
      job.candidate.ttir_path = folder + "/" + fault["ttir"].get<std::string>();
    if (fault.contains("grid")) job.candidate.grid = fault["grid"].get<std::array<int64_t, 3>>();
    job.data = {{DataFamily::kNormal, 0, false}, {DataFamily::kUniform, 42, true}};
    ShadowJudge judge({.work = work});
    const auto result = judge.Check(job);
    Json line = {{"reason", result ? result->reason : result.error().code},
                 {"message", result ? result->message : result.error().ToString()},
                 {"share", judge.last().share}};
    if (const auto& finding = judge.last().finding) {
      line["line"] = finding->line;
      line["other_line"] = finding->other_line;
    }
    std::cout << line << std::endl;
  }
  return {};
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: shadow_check FOLDER WORK\n";
    return 2;
  }
  if (auto done = kernelopt::JudgeAll(argv[1], std::atoll(argv[2])); !done) {
    std::cerr << done.error().ToString() << "\n";
    return 1;
  }
  return 0;
}
