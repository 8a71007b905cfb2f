#include "profile/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "inductor/module.h"

namespace kernelopt {
namespace {

const Event& EventAt(const Capture& capture, const CallSite& site) {
  return capture.variants[static_cast<size_t>(site.variant)]
      .graphs[static_cast<size_t>(site.graph)]
      .events[static_cast<size_t>(site.event)];
}

/// Part of a storage that one argument names.
struct Slot {
  int storage = -1;
  int64_t begin = 0, end = 0;  ///< bytes of the storage that it spans
  int64_t bytes = 0;           ///< of distinct elements in there
};

Slot SlotOf(const TensorRef& tensor) {
  int element = 4;
  if (auto dtype = DTypeFromTriton(tensor.dtype)) element = SizeOf(*dtype);
  Slot slot;
  slot.storage = tensor.storage;
  int64_t distinct = 1, extent = 1;
  for (size_t i = 0; i < tensor.size.size(); ++i) {
    if (tensor.size[i] == 0) return slot;
    int64_t stride = i < tensor.stride.size() ? tensor.stride[i] : 0;
    if (stride == 0) continue;  // broadcast: the same elements again
    distinct *= tensor.size[i];
    extent += (tensor.size[i] - 1) * stride;
  }
  slot.begin = tensor.offset * element;
  slot.end = slot.begin + extent * element;
  slot.bytes = std::min(distinct, extent) * element;
  return slot;
}

/// Bytes of a storage that any of the slots touches: overlapping slots share.
int64_t UnionBytes(std::vector<Slot> slots) {
  std::sort(slots.begin(), slots.end(),
            [](const Slot& a, const Slot& b) { return a.begin < b.begin; });
  int64_t total = 0;
  for (size_t i = 0; i < slots.size();) {
    int64_t begin = slots[i].begin, end = slots[i].end, sum = 0, largest = 0;
    for (; i < slots.size() && slots[i].begin < std::max(end, begin + 1); ++i) {
      end = std::max(end, slots[i].end);
      sum += slots[i].bytes;
      largest = std::max(largest, slots[i].bytes);
    }
    // The same view twice is one view; different views share what they must.
    bool same = sum == largest || end - begin <= largest;
    total += same ? largest : std::min(sum, end - begin);
  }
  return total;
}

/// Product of the kernel's numels: each load or store runs at most once an
/// iteration.
int64_t Iterations(const Kernel& kernel, const Event& event) {
  int64_t product = 1;
  for (const auto& [name, value] : LaunchNumels(kernel, event)) {
    if (!name.ends_with("numel") || value <= 0) continue;
    if (product > (int64_t{1} << 50) / value) return int64_t{1} << 50;
    product *= value;
  }
  return product;
}

}  // namespace

std::string CallSite::ToString(const Capture& capture) const {
  return fmt::format("{} graph {} event {}", capture.variants[static_cast<size_t>(variant)].Name(),
                     graph, event);
}

std::vector<KernelWork> CollectWork(const Capture& capture,
                                    const std::map<std::string, Module>& modules) {
  std::vector<KernelWork> work;
  std::map<std::string, size_t> index;
  for (size_t v = 0; v < capture.variants.size(); ++v) {
    const Variant& variant = capture.variants[v];
    for (size_t g = 0; g < variant.graphs.size(); ++g) {
      const Graph& graph = variant.graphs[g];
      auto module = modules.find(graph.module);
      if (module == modules.end()) continue;
      for (size_t e = 0; e < graph.events.size(); ++e) {
        if (graph.events[e].kind != Event::Kind::kLaunch) continue;
        const Kernel* kernel = module->second.FindKernel(graph.events[e].name);
        if (kernel == nullptr) continue;
        auto [it, is_new] = index.emplace(kernel->key, work.size());
        if (is_new) work.push_back({kernel->key, kernel->name, graph.module, kernel, {}});
        work[it->second].sites.push_back(
            {static_cast<int>(v), static_cast<int>(g), static_cast<int>(e)});
      }
    }
  }
  return work;
}

std::map<std::string, int64_t> LaunchNumels(const Kernel& kernel, const Event& event) {
  std::map<std::string, int64_t> numels;
  for (size_t i = 0; i < event.arguments.size() && i < kernel.arguments.size(); ++i) {
    if (event.arguments[i].kind == EventArgument::Kind::kInt)
      numels[kernel.arguments[i].name] = event.arguments[i].int_value;
  }
  return numels;
}

std::vector<int> RecentStorages(const Capture& capture, const CallSite& site) {
  const Variant& variant = capture.variants[static_cast<size_t>(site.variant)];
  std::map<int, int64_t> sizes;
  for (const StorageRecord& storage : variant.storages) sizes[storage.id] = storage.bytes;
  // Backwards from the launch, until the storages met add up to the L2.
  std::vector<int> recent;
  std::set<int> seen;
  int64_t bytes = 0;
  for (int g = site.graph; g >= 0; --g) {
    const std::vector<Event>& events = variant.graphs[static_cast<size_t>(g)].events;
    int last = g == site.graph ? site.event - 1 : static_cast<int>(events.size()) - 1;
    for (int e = last; e >= 0; --e) {
      const Event& event = events[static_cast<size_t>(e)];
      std::vector<int> used;
      if (event.kind == Event::Kind::kZero) used.push_back(event.storage);
      if (event.kind == Event::Kind::kLaunch || event.kind == Event::Kind::kExtern ||
          event.kind == Event::Kind::kCopy) {
        for (auto it = event.arguments.rbegin(); it != event.arguments.rend(); ++it)
          if (it->kind == EventArgument::Kind::kTensor) used.push_back(it->tensor.storage);
      }
      for (int storage : used) {
        if (!seen.insert(storage).second) continue;
        bytes += sizes[storage];
        if (bytes > capture.l2_bytes) {
          std::reverse(recent.begin(), recent.end());
          return recent;
        }
        recent.push_back(storage);
      }
    }
  }
  std::reverse(recent.begin(), recent.end());
  return recent;
}

LaunchBytes BytesOfLaunch(const Capture& capture, const CallSite& site, const Kernel& kernel,
                          const std::vector<PointerUse>& uses) {
  const Event& event = EventAt(capture, site);
  int64_t iterations = Iterations(kernel, event);
  std::map<int, std::vector<Slot>> read, written;
  for (size_t i = 0; i < event.arguments.size(); ++i) {
    if (event.arguments[i].kind != EventArgument::Kind::kTensor) continue;
    const TensorRef& tensor = event.arguments[i].tensor;
    Slot slot = SlotOf(tensor);
    if (i >= uses.size()) {
      read[slot.storage].push_back(slot);
      continue;
    }
    int element = 4;
    if (auto dtype = DTypeFromTriton(tensor.dtype)) element = SizeOf(*dtype);
    auto limited = [&](int operations) {
      Slot part = slot;
      part.bytes = std::min(part.bytes, iterations * operations * element);
      return part;
    };
    int loads = uses[i].loads + uses[i].atomics, stores = uses[i].stores + uses[i].atomics;
    if (loads > 0) read[slot.storage].push_back(limited(loads));
    if (stores > 0) written[slot.storage].push_back(limited(stores));
  }
  std::vector<int> recent = RecentStorages(capture, site);
  LaunchBytes bytes;
  for (const auto& [storage, slots] : read) {
    bool in_l2 = std::find(recent.begin(), recent.end(), storage) != recent.end();
    (in_l2 ? bytes.l2 : bytes.dram) += UnionBytes(slots);
  }
  // What is written stays in L2 as long as it fits there with the rest.
  int64_t stored = 0;
  for (const auto& [storage, slots] : written) stored += UnionBytes(slots);
  bool fits = stored + bytes.total() <= capture.l2_bytes;
  (fits ? bytes.l2 : bytes.dram) += stored;
  return bytes;
}

double FloorUs(const LaunchBytes& bytes, const DeviceSpeeds& speeds) {
  // 1 GB/s moves 1e3 bytes a microsecond. Everything passes through L2, and the
  // two levels work at the same time.
  double us = 0;
  if (speeds.dram_gb_s > 0) us = static_cast<double>(bytes.dram) / (speeds.dram_gb_s * 1e3);
  if (speeds.l2_gb_s > 0)
    us = std::max(us, static_cast<double>(bytes.total()) / (speeds.l2_gb_s * 1e3));
  return std::max(us, speeds.empty_kernel_us);
}

ModelEstimate Estimate(const Capture& capture, int variant, const std::vector<KernelWork>& work,
                       const std::map<std::string, std::vector<PointerUse>>& uses,
                       const DeviceSpeeds& speeds, double stop_share) {
  ModelEstimate estimate;
  const Variant& record = capture.variants[static_cast<size_t>(variant)];
  for (const Graph& graph : record.graphs) {
    for (const Event& event : graph.events) {
      if (event.kind == Event::Kind::kLaunch) estimate.triton_us += event.device_us;
      if (event.kind == Event::Kind::kExtern) estimate.extern_us += event.device_us;
    }
  }
  estimate.model_us = record.compiled_us > 0
                          ? record.compiled_us
                          : std::max(record.device_us, estimate.triton_us + estimate.extern_us);
  static const std::vector<PointerUse> kUnknown;
  for (const KernelWork& item : work) {
    KernelEstimate kernel;
    kernel.key = item.key;
    kernel.name = item.name;
    auto known = uses.find(item.key);
    for (const CallSite& site : item.sites) {
      if (site.variant != variant) continue;
      double time = EventAt(capture, site).device_us;
      double floor = FloorUs(BytesOfLaunch(capture, site, *item.kernel,
                                           known == uses.end() ? kUnknown : known->second),
                             speeds);
      ++kernel.launches;
      kernel.time_us += time;
      kernel.floor_us += floor;
      kernel.gain_us += std::max(0.0, time - floor);
    }
    if (kernel.launches == 0) continue;
    if (estimate.model_us > 0) kernel.share = kernel.gain_us / estimate.model_us;
    estimate.gain_us += kernel.gain_us;
    estimate.kernels.push_back(std::move(kernel));
  }
  std::stable_sort(
      estimate.kernels.begin(), estimate.kernels.end(),
      [](const KernelEstimate& a, const KernelEstimate& b) { return a.gain_us > b.gain_us; });
  if (estimate.gain_us < estimate.model_us)
    estimate.at_most = estimate.model_us / (estimate.model_us - estimate.gain_us);
  // From the back: leave out as long as what is left stays under the share.
  estimate.worthwhile = estimate.kernels.size();
  while (estimate.worthwhile > 0) {
    double left = estimate.left_us + estimate.kernels[estimate.worthwhile - 1].gain_us;
    if (left > 0 && left >= stop_share * estimate.model_us) break;
    estimate.left_us = left;
    --estimate.worthwhile;
  }
  return estimate;
}

std::string Summary(const ModelEstimate& estimate) {
  if (estimate.kernels.empty())
    return "at most 1.00x for this model: it launches no generated kernel";
  double share = estimate.model_us > 0 ? 100 * estimate.left_us / estimate.model_us : 0;
  if (estimate.worthwhile == 0) {
    return fmt::format(
        "at most {:.2f}x for this model: no kernel is worth working on, all {} together could "
        "save {:.2f} %",
        estimate.at_most, estimate.kernels.size(), share);
  }
  return fmt::format(
      "at most {:.2f}x for this model: {} of {} kernels are worth working on, the others could "
      "save {:.2f} % together",
      estimate.at_most, estimate.worthwhile, estimate.kernels.size(), share);
}

Json ToJson(const ModelEstimate& estimate) {
  Json json = {{"model_us", estimate.model_us},   {"triton_us", estimate.triton_us},
               {"extern_us", estimate.extern_us}, {"gain_us", estimate.gain_us},
               {"at_most", estimate.at_most},     {"worthwhile", estimate.worthwhile},
               {"left_us", estimate.left_us},     {"kernels", Json::array()}};
  for (const KernelEstimate& kernel : estimate.kernels) {
    json["kernels"].push_back({{"key", kernel.key},
                               {"name", kernel.name},
                               {"launches", kernel.launches},
                               {"time_us", kernel.time_us},
                               {"floor_us", kernel.floor_us},
                               {"gain_us", kernel.gain_us},
                               {"share", kernel.share}});
  }
  return json;
}

}  // namespace kernelopt
