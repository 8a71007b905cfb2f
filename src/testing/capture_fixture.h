// A small capture, built by hand, for tests of what reads captures.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "program/program.h"

namespace kernelopt::testing {

inline EventArgument TensorArgument(int storage, std::string dtype, std::vector<int64_t> size,
                                    std::vector<int64_t> stride, int64_t offset = 0) {
  EventArgument argument;
  argument.kind = EventArgument::Kind::kTensor;
  argument.tensor.storage = storage;
  argument.tensor.dtype = std::move(dtype);
  argument.tensor.size = std::move(size);
  argument.tensor.stride = std::move(stride);
  argument.tensor.offset = offset;
  return argument;
}

inline EventArgument IntArgument(int64_t value) {
  EventArgument argument;
  argument.kind = EventArgument::Kind::kInt;
  argument.int_value = value;
  return argument;
}

inline Event LaunchEvent(std::string name, std::vector<EventArgument> arguments,
                         double device_us = 10) {
  Event event;
  event.kind = Event::Kind::kLaunch;
  event.name = std::move(name);
  event.arguments = std::move(arguments);
  event.config = {{"XBLOCK", 1024}, {"num_warps", 4}, {"num_stages", 1}};
  event.device_us = device_us;
  return event;
}

inline Event StorageEvent(Event::Kind kind, int storage) {
  Event event;
  event.kind = kind;
  event.storage = storage;
  return event;
}

/// One variant with one graph of the events; storages of `bytes` each, by id.
inline Capture SmallCapture(std::vector<int64_t> bytes, std::vector<Event> events) {
  Capture capture;
  capture.l2_bytes = 50 << 20;
  capture.folder = "capture";
  Variant variant;
  for (size_t i = 0; i < bytes.size(); ++i)
    variant.storages.push_back({static_cast<int>(i), bytes[i], "intermediate"});
  Graph graph;
  graph.module = "m";
  graph.phase = "inference";
  graph.events = std::move(events);
  variant.graphs.push_back(std::move(graph));
  capture.variants.push_back(std::move(variant));
  return capture;
}

}  // namespace kernelopt::testing
