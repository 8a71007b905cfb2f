#include "workers/compile_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/cancel.h"
#include "base/file.h"
#include "proc/framed_child.h"
#include "workers/compile_cache.h"
#include "workers/python_child.h"

namespace kernelopt {
namespace {

// Each holds a few hundred MiB, so that a machine with very many cores is not filled.
constexpr unsigned kMostWorkers = 32;

// Importing torch takes a core for seconds, and whoever prepares works meanwhile.
constexpr int kPrepared = 8;

// One compilation and the requests that wait for it.
struct Job {
  std::string key;
  std::vector<size_t> requests;
  std::string work_folder;
};

FramedChildOptions ChildOptions(const CompilePoolOptions& options) {
  FramedChildOptions child;
  child.name = "compile worker";
  child.start_limit_ms = options.start_limit_ms;
  child.command = PythonCommand(options.python, "kernelopt.compile_worker", options.python_path);
  if (!options.command.empty()) child.command.argv = options.command;
  child.command.data_bytes = options.data_bytes;
  // No GPU, and nothing written outside the cache folder, whatever HOME is.
  auto& environment = child.command.environment;
  environment.emplace_back("CUDA_VISIBLE_DEVICES", "");
  environment.emplace_back("TRITON_CACHE_DIR", options.cache_folder + "/triton");
  environment.emplace_back("TORCHINDUCTOR_CACHE_DIR", options.cache_folder + "/inductor");
  // One compile uses one core; the libraries' thread pools would only take memory.
  environment.emplace_back("OMP_NUM_THREADS", "1");
  environment.emplace_back("OPENBLAS_NUM_THREADS", "1");
  return child;
}

// An allocation that fails ends a compiler in many ways; its words tell them.
bool SaysOutOfMemory(const std::string& text) {
  for (const char* words :
       {"bad_alloc", "out of memory", "Out of memory", "MemoryError", "Cannot allocate memory"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

struct CompilePool::State {
  explicit State(CompilePoolOptions given) : options(std::move(given)), cache("") {
    if (options.workers <= 0) {
      options.workers =
          static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostWorkers));
    }
    cache = CompileCache(options.cache_folder);
    cache.RemoveAbandoned();
  }

  FramedChild& Worker(size_t index) {
    while (workers.size() <= index) {
      workers.push_back(std::make_unique<FramedChild>(ChildOptions(options)));
    }
    return *workers[index];
  }

  // Waits until a worker that Prepare() started has answered; its next call says
  // what was wrong if it has not.
  void Settle(FramedChild& worker) {
    FramedChild* one = &worker;
    while (worker.busy() && !worker.done()) FramedChild::WaitAny(std::span(&one, 1));
    if (worker.done()) worker.Discard();
  }

  // Gives the job to an idle worker, or its error.
  Status Begin(FramedChild& worker, Job& job, const CompileRequest& request) {
    job.work_folder = KOPT_TRY(cache.MakeWorkFolder(request));
    const std::string source = CompileCache::SourcePath(job.work_folder, request);
    Json parameters = {{"compute_capability", request.compute_capability},
                       {"out_dir", job.work_folder}};
    if (request.is_ttir) {
      parameters["ttir_path"] = source;
      parameters.update(ToJson(request.config));
    } else {
      parameters["source_path"] = source;
      parameters["kernel_name"] = request.kernel_name;
      parameters["config"] = ToJson(request.config);
      parameters["expected_hash"] = request.expected_hash;
    }
    worker.Begin(request.is_ttir ? "compile_ttir" : "compile", parameters, request.time_limit_ms);
    return {};
  }

  Result<CompileOutput> Finish(FramedChild& worker, const Job& job) {
    auto answer = worker.Take();
    Result<CompileOutput> result = [&]() -> Result<CompileOutput> {
      if (answer) return cache.Keep(job.key, job.work_folder, *answer);
      Error error = answer.error();
      if (worker.outcome() == CallOutcome::kDied && SaysOutOfMemory(worker.ErrTail())) {
        error.code = "out_of_memory";
        error.message = fmt::format("compiling needs more than the {} MiB a worker may use",
                                    options.data_bytes >> 20);
      }
      // A failure that can't be kept is found again next time.
      if (error.code == "compile_error") {
        [[maybe_unused]] const Status kept = cache.KeepFailure(job.key, job.work_folder, error);
      }
      return std::unexpected(std::move(error));
    }();
    // Out of memory leaves a worker that holds its whole limit.
    if (!result && result.error().code == "out_of_memory") worker.Stop(0);
    if (!result) CompileCache::RemoveWorkFolder(job.work_folder);
    return result;
  }

  CompilePoolOptions options;
  CompileCache cache;
  std::vector<std::unique_ptr<FramedChild>> workers;
  std::string versions;
  std::string toolchain;  // the whole hello: what results are named by
};

CompilePool::CompilePool(CompilePoolOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

CompilePool::~CompilePool() {
  for (auto& worker : state_->workers) worker->Stop(0);  // idle: there is nothing to finish
}

int CompilePool::starts() const {
  int starts = 0;
  for (const auto& worker : state_->workers) starts += worker->starts();
  return starts;
}

void CompilePool::Prepare() {
  if (!MakeFolder(state_->options.cache_folder)) return;  // Versions() says why
  for (int i = 0; i < std::min(state_->options.workers, kPrepared); ++i) {
    FramedChild& worker = state_->Worker(static_cast<size_t>(i));
    if (!worker.busy() && !worker.running()) worker.Begin("hello", Json::object(), 0);
  }
}

Result<std::string> CompilePool::Versions() {
  if (state_->versions.empty()) {
    KOPT_CHECK_OK(MakeFolder(state_->options.cache_folder));
    state_->Settle(state_->Worker(0));
    const Json hello = KOPT_TRY(
        CheckHello(state_->Worker(0).Call("hello", Json::object(), 0), state_->options.python));
    state_->versions = fmt::format("torch {}, triton {}", hello["torch"].get<std::string>(),
                                   hello["triton"].get<std::string>());
    state_->toolchain = DumpJson(hello);
  }
  return state_->versions;
}

std::vector<Result<CompileOutput>> CompilePool::CompileAll(
    const std::vector<CompileRequest>& requests, const std::function<void(size_t index)>& done) {
  std::vector<Result<CompileOutput>> results(requests.size(),
                                             Fail(ErrorKind::kInternal, "not_compiled", ""));
  const auto settle = [&](const std::vector<size_t>& indices, const Result<CompileOutput>& result) {
    for (size_t index : indices) {
      results[index] = result;
      if (done) done(index);
    }
  };
  std::vector<size_t> all(requests.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all.empty()) return results;
  const auto versions = Versions();
  if (!versions) {
    settle(all, std::unexpected(versions.error()));
    return results;
  }

  std::vector<Job> jobs;
  std::map<std::string, size_t> job_of;
  for (size_t index : all) {
    const std::string key = CompileCache::Key(requests[index], state_->toolchain);
    auto [place, is_new] = job_of.emplace(key, jobs.size());
    if (is_new) jobs.push_back({.key = key, .requests = {}, .work_folder = {}});
    jobs[place->second].requests.push_back(index);
  }

  std::map<FramedChild*, Job*> running;  // nullptr: it still starts, see Prepare()
  for (auto& worker : state_->workers) {
    if (worker->busy()) running.emplace(worker.get(), nullptr);
  }
  std::vector<FramedChild*> busy;
  size_t next = 0, left = jobs.size();
  while (left > 0) {
    while (next < jobs.size()) {
      Job& job = jobs[next];
      if (CancelRequested()) {
        settle(job.requests, std::unexpected(Interrupted()));
        ++next, --left;
        continue;
      }
      if (auto kept = state_->cache.Find(job.key)) {
        settle(job.requests, *kept);
        ++next, --left;
        continue;
      }
      FramedChild* idle = nullptr;
      for (int i = 0; i < state_->options.workers && idle == nullptr; ++i) {
        FramedChild& worker = state_->Worker(static_cast<size_t>(i));
        if (!worker.busy()) idle = &worker;
      }
      if (idle == nullptr) break;
      ++next;
      if (auto begun = state_->Begin(*idle, job, requests[job.requests[0]]); !begun) {
        settle(job.requests, std::unexpected(begun.error()));
        --left;
        continue;
      }
      running.emplace(idle, &job);
    }
    if (left == 0) break;
    busy.clear();
    for (const auto& [worker, job] : running) busy.push_back(worker);
    FramedChild::WaitAny(busy);
    for (FramedChild* worker : busy) {
      if (!worker->done()) continue;
      if (const Job* job = running.at(worker)) {
        settle(job->requests, state_->Finish(*worker, *job));
        --left;
      } else {
        worker->Discard();  // if it could not start, the next job's start says why
      }
      running.erase(worker);
    }
  }
  return results;
}

}  // namespace kernelopt
