#include "workers/compile_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/cancel.h"
#include "base/file.h"
#include "proc/process.h"
#include "testing/test_folder.h"
#include "workers/scripted_worker.h"

namespace kernelopt {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// "Compiles" a source: the first word says how. Every job is noted in a log.
constexpr const char* kCompile = R"(
def compile(params, progress):
    source = pathlib.Path(params["source_path"]).read_text()
    with open(os.environ["TRITON_CACHE_DIR"] + ".log", "a") as log:
        log.write(f"{os.getpid()} {source}\n")
    word = source.split()[0]
    if word == "wrong":
        raise framing.JobError("usage", "compile_error", "tmp9 is not defined", "kernel")
    if word == "bomb":
        time.sleep(100)
    if word == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "hungry":
        print("LLVM ERROR: out of memory", file=sys.stderr, flush=True)
        os.abort()
    if word == "greedy":
        return {"x": len(bytearray(1 << 30))}
    if word == "slow":
        time.sleep(0.3)
    out = pathlib.Path(params["out_dir"])
    text = json.dumps([source, params["config"], params["compute_capability"]])
    files = {kind: out / f"kernel.{kind}" for kind in ("cubin", "ttir", "ptx")}
    for kind, path in files.items():
        if word != "forgets" or kind != "ptx":
            path.write_text(kind + text)
    answer = {kind: str(path) for kind, path in files.items()}
    answer.update(record={"entry": params["kernel_name"], "parameters": [
        {"kind": "pointer", "size": 8, "argument": 0, "scratch_bytes": 0, "scratch_alignment": 1}],
        "threads": 128, "num_ctas": 1, "cluster": [1, 1, 1], "shared_bytes": 0,
        "cooperative": False},
        binary_hash=hashlib.sha256(text.encode()).hexdigest(), registers=32, spill_bytes=0,
        compile_ms=7)
    if word == "partial":
        del answer["registers"]
    return answer
)";

// The second method, told apart by its parameters.
constexpr const char* kCompileTtir = R"(
def compile_ttir(params, progress):
    path = pathlib.Path(params["ttir_path"])
    assert path.name.endswith(".ttir") and "kernel_name" not in params, params
    config = {key: params[key] for key in ("num_warps", "num_stages")}
    return compile({**params, "source_path": str(path), "kernel_name": "twin", "config": config},
                   progress)
)";

constexpr const char* kVersions = R"({"torch": "2.11.0", "triton": "3.6.0"})";

class CompilePoolTest : public testing::Test {
 protected:
  CompilePoolOptions Options(const std::string& hello = kVersions) {
    CompilePoolOptions options;
    options.cache_folder = folder_.path() + "/cache";
    options.workers = 2;
    options.command =
        ScriptedWorker(std::string(kCompile) + kCompileTtir, "compile, compile_ttir", hello);
    return options;
  }

  static CompileRequest Request(std::string source) {
    CompileRequest request;
    request.source = std::move(source);
    request.kernel_name = "kernel";
    request.config.constexprs = {{"XBLOCK", 64}};
    request.time_limit_ms = 10000;
    return request;
  }

  /// Jobs that workers were given.
  int Jobs() const {
    std::ifstream log(folder_.path() + "/cache/triton.log");
    int lines = 0;
    for (std::string line; std::getline(log, line);) ++lines;
    return lines;
  }

  int WorkFolders() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(folder_.path() + "/cache/new")) {
      ++count;
    }
    return count;
  }

  TestFolder folder_;
};

TEST_F(CompilePoolTest, ResultsInOrderAndFilesInTheCache) {
  CompilePool pool(Options());
  std::multiset<size_t> done;
  const std::vector<CompileRequest> requests = {Request("a"), Request("wrong"), Request("b"),
                                                Request("a")};
  auto results = pool.CompileAll(requests, [&](size_t index) { done.insert(index); });
  ASSERT_EQ(results.size(), 4u);
  ASSERT_TRUE(results[0]) << results[0].error().ToString();
  EXPECT_THAT(*ReadFile(results[0]->cubin_path), HasSubstr("cubin[\"a\", {\"constexprs\""));
  EXPECT_THAT(*ReadFile(results[0]->ttir_path), HasSubstr("ttir"));
  EXPECT_THAT(*ReadFile(results[0]->ptx_path), HasSubstr("ptx"));
  EXPECT_EQ(results[0]->record.entry, "kernel");
  EXPECT_EQ(results[0]->record.parameters.size(), 1u);
  EXPECT_EQ(results[0]->registers, 32);
  EXPECT_EQ(results[0]->compile_ms, 7);
  EXPECT_EQ(results[1].error().code, "compile_error");
  EXPECT_EQ(results[1].error().ToString(), "kernel: tmp9 is not defined");
  EXPECT_NE(results[2]->binary_hash, results[0]->binary_hash);
  EXPECT_EQ(results[3]->cubin_path, results[0]->cubin_path);
  EXPECT_THAT(done, UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(Jobs(), 3);  // the two equal requests are one job
  EXPECT_EQ(WorkFolders(), 0);
  EXPECT_EQ(*pool.Versions(), "torch 2.11.0, triton 3.6.0");
}

TEST_F(CompilePoolTest, AnotherProcessIsServedFromTheCache) {
  const auto first = CompilePool(Options()).CompileAll({Request("a"), Request("wrong")}, {});
  CompilePool second(Options());
  auto results = second.CompileAll({Request("a"), Request("wrong")}, {});
  EXPECT_EQ(Jobs(), 2);
  EXPECT_EQ(results[0]->binary_hash, first[0]->binary_hash);
  EXPECT_EQ(results[0]->record.threads, 128);
  EXPECT_EQ(results[0]->compile_ms, 0);
  EXPECT_EQ(results[1].error().ToString(), first[1].error().ToString());
}

TEST_F(CompilePoolTest, EverythingThatMattersIsInTheKey) {
  CompilePool pool(Options());
  CompileRequest base = Request("a");
  auto other_name = base, other_config = base, other_target = base, reproduced = base;
  other_name.kernel_name = "other";
  other_config.config.num_warps = 8;
  other_target.compute_capability = 80;
  reproduced.expected_hash = "ab";
  pool.CompileAll({base, other_name, other_config, other_target, reproduced}, {});
  EXPECT_EQ(Jobs(), 5);
  CompilePool newer(Options(R"({"torch": "2.11.0", "triton": "3.7.0"})"));
  newer.CompileAll({base}, {});
  EXPECT_EQ(Jobs(), 6);
}

TEST_F(CompilePoolTest, TtirIsCompiledAsItIs) {
  CompilePool pool(Options());
  CompileRequest twin = Request("a");
  twin.is_ttir = true;
  twin.config.num_warps = 2;
  CompileRequest kernel = Request("a");
  kernel.config.num_warps = 2;
  auto results = pool.CompileAll({twin, kernel, twin}, {});
  ASSERT_TRUE(results[0]) << results[0].error().ToString();
  EXPECT_EQ(results[0]->record.entry, "twin");
  EXPECT_THAT(*ReadFile(results[0]->cubin_path), HasSubstr("\"num_warps\": 2"));
  EXPECT_EQ(results[1]->record.entry, "kernel");
  EXPECT_EQ(results[2]->cubin_path, results[0]->cubin_path);
  EXPECT_EQ(Jobs(), 2);
}

TEST_F(CompilePoolTest, DamagedEntryIsMadeAgain) {
  CompilePool pool(Options());
  const auto first = pool.CompileAll({Request("a")}, {});
  std::ofstream(first[0]->cubin_path, std::ios::trunc) << "half";
  auto again = pool.CompileAll({Request("a")}, {});
  ASSERT_TRUE(again[0]) << again[0].error().ToString();
  EXPECT_THAT(*ReadFile(again[0]->cubin_path), HasSubstr("cubin"));
  EXPECT_EQ(Jobs(), 2);
  std::filesystem::remove(again[0]->ptx_path);
  EXPECT_TRUE(pool.CompileAll({Request("a")}, {})[0]);
  EXPECT_EQ(Jobs(), 3);
}

TEST_F(CompilePoolTest, WhatAKilledProcessWasMakingGoesAway) {
  namespace fs = std::filesystem;
  const std::string entries = Options().cache_folder + "/new";
  for (const char* name : {"old", "young"}) {
    ASSERT_TRUE(MakeFolder(entries + "/" + name));
    ASSERT_TRUE(WriteFileAtomic(entries + "/" + name + "/source.py", "x"));
  }
  fs::last_write_time(entries + "/old", fs::file_time_type::clock::now() - std::chrono::hours(2));
  CompilePool pool(Options());
  EXPECT_FALSE(PathExists(entries + "/old"));
  EXPECT_TRUE(PathExists(entries + "/young/source.py")) << "another process may be making it";
}

TEST_F(CompilePoolTest, BombCostsItsLimitAndNothingElse) {
  CompilePool pool(Options());
  CompileRequest bomb = Request("bomb");
  bomb.time_limit_ms = 400;
  const int64_t start = MonotonicMs();
  auto results =
      pool.CompileAll({Request("a"), bomb, Request("b"), Request("c"), Request("d")}, {});
  EXPECT_LT(MonotonicMs() - start, 10000);
  for (size_t i : {0, 2, 3, 4}) EXPECT_TRUE(results[i]) << i;
  EXPECT_EQ(results[1].error().code, "timeout");
  EXPECT_THAT(results[1].error().message, HasSubstr("0.4 s"));
  EXPECT_EQ(WorkFolders(), 0);
  const int jobs = Jobs();
  pool.CompileAll({bomb}, {});  // not kept: a faster machine may manage
  EXPECT_EQ(Jobs(), jobs + 1);
}

TEST_F(CompilePoolTest, LostWorkersAreChargedToTheirJob) {
  CompilePoolOptions options = Options();
  options.workers = 1;
  options.data_bytes = int64_t{512} << 20;
  CompilePool pool(options);
  auto results =
      pool.CompileAll({Request("crash"), Request("a"), Request("hungry"), Request("greedy"),
                       Request("partial"), Request("forgets"), Request("b")},
                      {});
  EXPECT_EQ(results[0].error().code, "died");
  EXPECT_THAT(results[0].error().message, HasSubstr("signal 11"));
  EXPECT_TRUE(results[1]);
  EXPECT_EQ(results[2].error().code, "out_of_memory");
  EXPECT_THAT(results[2].error().message, HasSubstr("512 MiB"));
  EXPECT_EQ(results[3].error().code, "out_of_memory");
  EXPECT_EQ(results[4].error().code, "protocol_error");
  EXPECT_THAT(results[4].error().message, HasSubstr("registers"));
  EXPECT_EQ(results[5].error().code, "protocol_error");
  EXPECT_TRUE(results[6]);
  EXPECT_EQ(pool.starts(), 4);
  EXPECT_EQ(WorkFolders(), 0);
}

TEST_F(CompilePoolTest, WorkersStartAsJobsNeedThem) {
  CompilePoolOptions options = Options();
  options.workers = 4;
  CompilePool pool(options);
  EXPECT_EQ(pool.starts(), 0);
  EXPECT_TRUE(pool.CompileAll({}, {}).empty());
  EXPECT_EQ(pool.starts(), 0);
  pool.CompileAll({Request("a")}, {});
  EXPECT_EQ(pool.starts(), 1);
  pool.CompileAll({Request("slow 1"), Request("slow 2")}, {});
  EXPECT_EQ(pool.starts(), 2);
}

TEST_F(CompilePoolTest, PreparedWorkersServeTheFirstJobs) {
  CompilePool pool(Options());
  pool.Prepare();
  pool.Prepare();
  EXPECT_EQ(pool.starts(), 2);
  auto results = pool.CompileAll({Request("one"), Request("two"), Request("three")}, {});
  for (const auto& result : results) EXPECT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(pool.starts(), 2);
  EXPECT_EQ(Jobs(), 3);
}

TEST_F(CompilePoolTest, PreparedWorkersThatCanNotStartAreNamed) {
  CompilePoolOptions options = Options();
  options.command = {"sh", "-c", "exit 3"};
  CompilePool pool(options);
  pool.Prepare();
  auto results = pool.CompileAll({Request("one")}, {});
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().kind, ErrorKind::kEnvironment);
}

TEST_F(CompilePoolTest, SeesNoGpuAndKeepsTheCachesInItsFolder) {
  CompilePoolOptions options = Options();
  setenv("KERNELOPT_PACK", "/some/pack", 1);
  options.command = ScriptedWorker(
      "def compile(params, progress):\n"
      "    raise framing.JobError('usage', 'compile_error', json.dumps({k: os.environ.get(k) for k "
      "in ('CUDA_VISIBLE_DEVICES', 'TRITON_CACHE_DIR', 'KERNELOPT_PACK')}))",
      "compile", kVersions);
  auto results = CompilePool(options).CompileAll({Request("a")}, {});
  unsetenv("KERNELOPT_PACK");
  EXPECT_EQ(results[0].error().message,
            "{\"CUDA_VISIBLE_DEVICES\": \"\", \"TRITON_CACHE_DIR\": \"" + folder_.path() +
                "/cache/triton\", \"KERNELOPT_PACK\": null}");
}

TEST_F(CompilePoolTest, CancelEndsTheRest) {
  CompilePool pool(Options());
  std::thread later([&] {
    for (int i = 0; i < 3000 && Jobs() == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    RequestCancel();
  });
  auto results = pool.CompileAll({Request("bomb"), Request("bomb 2"), Request("bomb 3")}, {});
  later.join();
  ResetCancel();
  for (const auto& result : results) EXPECT_EQ(result.error().code, "interrupted");
  EXPECT_EQ(WorkFolders(), 0);
}

TEST_F(CompilePoolTest, WorkerThatCanNotStartIsNamedOnEveryRequest) {
  for (auto [command, code] :
       {std::pair<std::vector<std::string>, const char*>{{"kernelopt-no-such-python"},
                                                         "torch_missing"},
        {{"sh", "-c", "echo No module named kernelopt >&2; exit 1"}, "torch_missing"},
        {ScriptedWorker(kCompile, "compile", R"({"torch": None, "triton": None})"),
         "torch_missing"},
        {ScriptedWorker(kCompile, "compile", R"({"torch": "2.8.1", "triton": "3.4.0"})"),
         "torch_too_old"}}) {
    CompilePoolOptions options = Options();
    options.command = command;
    CompilePool pool(options);
    auto results = pool.CompileAll({Request("a"), Request("b")}, {});
    for (const auto& result : results) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, code);
      EXPECT_EQ(result.error().kind, ErrorKind::kEnvironment);
      EXPECT_THAT(result.error().message, HasSubstr("--python"));
    }
  }
}

TEST_F(CompilePoolTest, CacheFolderThatCanNotBeMade) {
  CompilePoolOptions options = Options();
  std::ofstream(folder_.path() + "/file") << "";
  options.cache_folder = folder_.path() + "/file/cache";
  CompilePool pool(options);
  auto results = pool.CompileAll({Request("a")}, {});
  EXPECT_EQ(results[0].error().code, "not_writable");
}

}  // namespace
}  // namespace kernelopt
