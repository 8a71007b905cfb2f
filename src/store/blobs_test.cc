#include "store/blobs.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "testing/test_folder.h"

namespace kernelopt::store {
namespace {

TEST(BlobsTest, WhatIsWrittenIsRead) {
  TestFolder folder;
  EXPECT_TRUE(rc::check([&](const std::string& bytes) {
    const auto name = WriteBlob(folder.path(), bytes);
    RC_ASSERT(name.has_value());
    RC_ASSERT(*name == Sha256Hex(bytes));
    RC_ASSERT(*WriteBlob(folder.path(), bytes) == *name);
    RC_ASSERT(*ReadBlob(folder.path(), *name) == bytes);
  }));
}

TEST(BlobsTest, LaysFilesOutByTheFirstByte) {
  const std::string name(64, 'a');
  EXPECT_EQ(BlobPath("/r/blobs", name), "/r/blobs/aa/" + std::string(62, 'a'));
}

TEST(BlobsTest, OnlyHashesNameBlobs) {
  TestFolder folder;
  for (const std::string& name :
       {std::string(), std::string("../../etc/passwd"), std::string(63, 'a'), std::string(64, 'A'),
        std::string(64, 'g'), std::string(64, '/'), std::string(64, 'a')}) {
    const auto bytes = ReadBlob(folder.path(), name);
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code, "no_such_blob");
  }
}

TEST(BlobsTest, ADamagedBlobIsRefusedAndWrittenAgain) {
  TestFolder folder;
  const std::string name = *WriteBlob(folder.path(), "cubin");
  std::ofstream(BlobPath(folder.path(), name)) << "cubix";
  EXPECT_EQ(ReadBlob(folder.path(), name).error().code, "corrupt_store");
  EXPECT_EQ(*WriteBlob(folder.path(), "cubin"), name);
  EXPECT_EQ(*ReadBlob(folder.path(), name), "cubin");
}

TEST(BlobsTest, CopiesWhatIsMissing) {
  TestFolder folder;
  const std::string a = folder / "a", b = folder / "b";
  ASSERT_TRUE(WriteBlob(a, "1"));
  ASSERT_TRUE(WriteBlob(a, "2"));
  ASSERT_TRUE(WriteBlob(b, "2"));
  std::filesystem::create_directories(a + "/zz");
  std::ofstream(a + "/zz/no-blob") << "x";
  EXPECT_EQ(*CopyMissingBlobs(a, b), 1);
  EXPECT_EQ(*CopyMissingBlobs(a, b), 0);
  EXPECT_EQ(*ReadBlob(b, Sha256Hex("1")), "1");
  EXPECT_EQ(*CopyMissingBlobs(folder / "none", b), 0);
}

}  // namespace
}  // namespace kernelopt::store
