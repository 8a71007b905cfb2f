#include "pipeline/gpu_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace kernelopt {
namespace {

TEST(GpuLock, HasOneHolder) {
  std::string uuid = "GPU-test/" + std::to_string(getpid());
  auto first = GpuLock::Take(uuid, "/tmp", nullptr, nullptr);
  ASSERT_TRUE(first);
  int waits = 0;
  auto second = GpuLock::Take(uuid, "/tmp", [&] { ++waits; }, [] { return true; });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "interrupted");
  EXPECT_EQ(waits, 1);
  EXPECT_TRUE(GpuLock::Take(uuid + "b", "/tmp", nullptr, nullptr)) << "another GPU is free";
  {
    GpuLock moved = std::move(*first);
    EXPECT_FALSE(GpuLock::Take(uuid, "/tmp", nullptr, [] { return true; }));
  }
  EXPECT_TRUE(GpuLock::Take(uuid, "/tmp", nullptr, nullptr)) << "dropped with its holder";
  unlink(("/tmp/kernelopt-gpu-GPU-test-" + std::to_string(getpid()) + ".lock").c_str());
  unlink(("/tmp/kernelopt-gpu-GPU-test-" + std::to_string(getpid()) + "b.lock").c_str());
}

}  // namespace
}  // namespace kernelopt
