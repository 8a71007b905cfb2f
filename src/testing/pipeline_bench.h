// A store in a temporary folder, a clock that stands still unless it is moved,
// and a list of events: what the pipeline's unit tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/environment.h"
#include "testing/fakes.h"
#include "testing/test_folder.h"

namespace kernelopt {

class StandingClock : public Clock {
 public:
  double Seconds() const override { return now; }
  double UnixSeconds() const override { return 1.7e9 + now; }
  double now = 0;
};

class EventList : public EventSink {
 public:
  void Emit(const RunEvent& event) override { events.push_back(event); }
  int Count(const std::string& step, const std::string& outcome) const {
    return static_cast<int>(std::ranges::count_if(events, [&](const RunEvent& event) {
      return event.kind == RunEvent::Kind::kStepEnd && event.step == step &&
             event.outcome == outcome;
    }));
  }
  std::vector<RunEvent> events;
};

struct TestBench {
  TestBench() { Reopen(); }
  /// In a folder that stays; the store is for the caller to open.
  explicit TestBench(const std::string& existing) : folder(existing) {}

  /// As a new process would: the store is closed and opened again.
  void Reopen() {
    store.reset();
    auto opened = Store::Open(folder.path() + "/run", StoreMode::kCreate);
    EXPECT_TRUE(opened) << opened.error().ToString();
    store = std::move(*opened);
  }

  Environment MakeEnvironment() {
    return Environment{.judge = &judge,
                       .model = &model,
                       .compiler = compiler,
                       .store = *store,
                       .clock = clock,
                       .events = events,
                       .cancelled = [this] { return cancelled; },
                       .cache = folder.path() + "/cache",
                       .version = "0.0.0",
                       .program = "kernelopt"};
  }

  TestFolder folder;
  std::unique_ptr<Store> store;
  StandingClock clock;
  EventList events;
  testing::FakeJudge judge;
  testing::FakeModelWorker model;
  testing::FakeCompiler compiler;
  bool cancelled = false;
};

}  // namespace kernelopt
