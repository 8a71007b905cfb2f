#include "pipeline/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "gates/performance_gate.h"
#include "pipeline/gpu_lock.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;

/// Fresh processes that the noise between processes is estimated from.
constexpr int kNoiseProcesses = 6;

struct Supported {
  std::string_view name;
  int major, first_minor, last_minor;
};
constexpr std::array kSupported = {Supported{"torch", 2, 9, 14}, Supported{"triton", 3, 5, 8}};

std::string Path(const std::string& cache, const std::string& uuid) {
  std::string name;
  for (char c : uuid) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return cache + "/doctor/" + name + ".json";
}

/// "2.11.0+cu130" -> {2, 11}; {-1, -1} when it isn't a version.
std::pair<int, int> MajorMinor(const std::string& version) {
  int major = -1, minor = -1;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2) return {-1, -1};
  return {major, minor};
}

Status CheckVersion(const Supported& supported, const std::string& version) {
  auto [major, minor] = MajorMinor(version);
  if (major == supported.major && minor >= supported.first_minor && minor <= supported.last_minor) {
    return {};
  }
  return Fail(
      ErrorKind::kEnvironment, "unsupported_version",
      fmt::format("{} is {}; {}.{} to {}.{} are supported, install one of them", supported.name,
                  version.empty() ? "not installed" : version, supported.major,
                  supported.first_minor, supported.major, supported.last_minor));
}

/// torch leaves out what the driver begins a UUID with.
std::string WithPrefix(const std::string& uuid) {
  bool has = uuid.empty() || uuid.starts_with("GPU-") || uuid.starts_with("MIG-");
  return has ? uuid : "GPU-" + uuid;
}

std::string FindProfiler() {
  std::istringstream path(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  std::vector<std::string> folders;
  for (std::string folder; std::getline(path, folder, ':');) folders.push_back(folder);
  folders.push_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders) {
    if (access((folder + "/ncu").c_str(), X_OK) == 0) return folder + "/ncu";
  }
  return "";
}

}  // namespace

std::optional<MeasuredGpu> LoadMeasured(const std::string& cache, const DeviceFacts& facts) {
  auto text = ReadFile(Path(cache, facts.uuid));
  if (!text) return std::nullopt;
  auto json = ParseJson(*text, "measured");
  if (!json || !json->is_object()) return std::nullopt;
  MeasuredGpu measured;
  measured.uuid = facts.uuid;
  measured.driver = json->value("driver", "");
  auto speeds_json = json->find("speeds");
  auto noise = json->find("noise_us");
  if (measured.driver != facts.driver || speeds_json == json->end()) return std::nullopt;
  auto speeds = DeviceSpeedsFromJson(*speeds_json);
  if (!speeds || speeds->dram_gb_s <= 0) return std::nullopt;
  measured.speeds = *speeds;
  if (noise != json->end() && noise->is_array()) {
    for (const Json& value : *noise) {
      if (value.is_number()) measured.noise_us.push_back(value.get<double>());
    }
  }
  return measured;
}

Status SaveMeasured(const std::string& cache, const MeasuredGpu& measured) {
  KOPT_CHECK_OK(MakeFolder(cache + "/doctor"));
  Json json = {{"driver", measured.driver},
               {"speeds", ToJson(measured.speeds)},
               {"noise_us", measured.noise_us}};
  const std::string path = Path(cache, measured.uuid);
  // Only this host has this GPU, and its lock is held.
  RemoveLeftovers(cache + "/doctor", fs::path(path).filename().string() + ".");
  return WriteFileAtomic(path, DumpJson(json) + "\n");
}

Result<MeasuredGpu> MeasureSpeeds(Environment& environment, const DeviceFacts& facts) {
  if (auto known = LoadMeasured(environment.cache, facts)) return *known;
  MeasuredGpu measured;
  measured.uuid = facts.uuid;
  measured.driver = facts.driver;
  measured.speeds = KOPT_TRY(environment.judge->Speeds());
  KOPT_CHECK_OK(SaveMeasured(environment.cache, measured));
  return measured;
}

Result<std::vector<double>> MeasureNoise(Environment& environment, const DeviceFacts& facts,
                                         const ModelWorker::Progress& say) {
  MeasuredGpu measured = KOPT_TRY(MeasureSpeeds(environment, facts));
  if (!measured.noise_us.empty()) return measured.noise_us;
  KOPT_CHECK_OK(environment.judge->Release());
  measured.noise_us = KOPT_TRY(environment.model->Noise(kNoiseProcesses, say));
  KOPT_CHECK_OK(SaveMeasured(environment.cache, measured));
  return measured.noise_us;
}

Status CheckVersions(const std::string& torch, const std::string& triton) {
  KOPT_CHECK_OK(CheckVersion(kSupported[0], torch));
  return CheckVersion(kSupported[1], triton);
}

Result<HostFacts> ReadHost(ModelWorker& worker) {
  Json hello = KOPT_TRY(worker.Hello());
  HostFacts host;
  host.torch = hello.value("torch", "");
  host.python = hello.value("python", "");
  if (auto triton = hello.find("triton"); triton != hello.end() && triton->is_string()) {
    host.triton = triton->get<std::string>();
  }
  host.cuda = KOPT_TRY(GetBool(hello, "cuda", "the model worker's hello"));
  if (!host.cuda) return host;
  const Json& device = *KOPT_TRY(GetObject(hello, "device", "the model worker's hello"));
  constexpr std::string_view kWhat = "torch's description of the GPU";
  host.device.name = KOPT_TRY(GetString(device, "name", kWhat));
  host.device.uuid = WithPrefix(KOPT_TRY(GetString(device, "uuid", kWhat)));
  host.device.mig = KOPT_TRY(GetString(device, "mig", kWhat));
  host.device.compute_capability =
      static_cast<int>(KOPT_TRY(GetInt(device, "compute_capability", kWhat)));
  host.device.sm_count = static_cast<int>(KOPT_TRY(GetInt(device, "sm_count", kWhat)));
  host.device.l2_bytes = KOPT_TRY(GetInt(device, "l2_bytes", kWhat));
  host.device.memory_bytes = KOPT_TRY(GetInt(device, "memory_bytes", kWhat));
  return host;
}

std::string CounterNote() {
  std::string profiler = FindProfiler();
  if (profiler.empty()) return "ncu is not installed; profiles are made without counters";
  auto parameters = ReadFile("/proc/driver/nvidia/params");
  bool admin_only = parameters && parameters->find("RmProfilingAdminOnly: 1") != std::string::npos;
  if (admin_only && geteuid() != 0) {
    return profiler + " is there, but the driver lets only root read counters";
  }
  return profiler + " may read counters";
}

DoctorReport Examine(Environment& environment, const std::string& python) {
  DoctorReport report;
  auto row = [&](std::string name, std::string text, bool good = true) {
    report.rows.push_back({std::move(name), std::move(text), good});
  };
  auto fail = [&](const std::string& name, const Error& error) {
    row(name, error.message, false);
    if (report.verdict) report.verdict = std::unexpected(error);
  };
  StepProgress progress(environment.events, environment.clock, "doctor", 0);
  progress.Say("asking " + python);
  auto host = ReadHost(*environment.model);
  if (!host) {
    row("python", python);
    fail("torch", host.error());
    return report;
  }
  row("python", fmt::format("{} ({})", python, host->python));
  if (Status ok = CheckVersion(kSupported[0], host->torch); ok) {
    row("torch", host->torch);
  } else {
    fail("torch", ok.error());
  }
  if (Status ok = CheckVersion(kSupported[1], host->triton); ok) {
    row("triton", host->triton);
  } else {
    fail("triton", ok.error());
  }
  if (!host->cuda) {
    fail("GPU", Error{ErrorKind::kEnvironment, "no_gpu", "torch sees no NVIDIA GPU", ""});
    return report;
  }
  auto facts = environment.judge->Facts();
  if (!facts) {
    fail("GPU", facts.error());
    return report;
  }
  row("GPU", fmt::format("{}, {:.0f} GiB, driver {}, {}", GpuId(*facts),
                         static_cast<double>(facts->memory_bytes) / (1 << 30), facts->driver,
                         facts->uuid));
  auto lock = GpuLock::Take(
      facts->uuid, environment.cache, [&] { progress.Say("waiting for another run on this GPU"); },
      environment.cancelled);
  if (!lock) {
    fail("lock", lock.error());
    return report;
  }
  MeasuredGpu measured{facts->uuid, facts->driver, {}, {}};
  progress.Say("measuring bandwidths and launch time");
  auto speeds = environment.judge->Speeds();
  if (!speeds) {
    fail("speed", speeds.error());
    return report;
  }
  measured.speeds = *speeds;
  row("memory", fmt::format("{:.0f} GB/s, {:.0f} GB/s in L2", speeds->dram_gb_s, speeds->l2_gb_s));
  row("launch", fmt::format("{:.2f} us an empty kernel", speeds->empty_kernel_us));
  (void)environment.judge->Release();
  auto noise = environment.model->Noise(
      kNoiseProcesses, [&](const std::string& step) { progress.Say("noise: " + step); });
  if (!noise) {
    fail("noise", noise.error());
    return report;
  }
  measured.noise_us = *noise;
  row("noise", fmt::format("{:.2f} % between processes ({} of them)",
                           100 * LogSigma(measured.noise_us), measured.noise_us.size()));
  row("counters", CounterNote());
  if (Status saved = SaveMeasured(environment.cache, measured); !saved) {
    fail("cache", saved.error());
  }
  return report;
}

}  // namespace kernelopt
