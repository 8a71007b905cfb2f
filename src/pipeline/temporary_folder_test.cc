#include "pipeline/temporary_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "base/file.h"

namespace kernelopt {
namespace {

TEST(TemporaryFolder, GoesAwayWithItsLastOwner) {
  std::string path;
  {
    auto made = TemporaryFolder::Make("kernelopt-temporary");
    ASSERT_TRUE(made);
    path = made->path();
    ASSERT_TRUE(WriteFileAtomic(path + "/file", "x"));
    TemporaryFolder moved = std::move(*made);
    made = TemporaryFolder::Make("kernelopt-temporary");
    EXPECT_NE(made->path(), path);
    EXPECT_TRUE(std::filesystem::exists(path + "/file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace kernelopt
