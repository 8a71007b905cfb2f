// Memory of the shadow device: storages of any size, of which only what was written
// is kept.
//
//   ShadowMemory memory;
//   uint64_t x = memory.Allocate(4 * n);
//   memory.At(x).SetContent(ShadowContent::Draw(draw));   // the judge's generator
//
// A storage is its content (a rule that gives every element) and pages of 512
// elements for what was stored since. Addresses are numbers of 64 bits: the storage's
// number in the upper bits, so that no offset, however wrong, leads into another
// storage. A storage has elements of one size, that of the first access.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "device/element_code.h"
#include "device/judge.h"

namespace kernelopt {

inline constexpr int64_t kShadowPageElements = 512;

/// What the elements of a storage are where nothing was stored.
class ShadowContent {
 public:
  static ShadowContent Bytes(uint8_t value);  ///< every byte, of any type
  static ShadowContent Poison(DType dtype, int which);
  static ShadowContent Draw(const KoptDraw& draw);
  static ShadowContent Host(std::string bytes);
  /// The elements of `from`, floats of `dtype`, as doubles.
  static ShadowContent Widened(std::shared_ptr<const ShadowContent> from, DType dtype);

  bool is_poison() const { return kind_ == Kind::kPoison; }
  /// Bytes an element; 0 for any.
  int element_bytes() const;
  /// The bits of elements [index, index + count) of `bytes` bytes each.
  void Fill(int64_t index, int64_t count, int bytes, void* to) const;
  /// Equal ones have equal elements.
  uint64_t Fingerprint() const;

 private:
  enum class Kind { kBytes, kPoison, kDraw, kHost, kWidened };
  Kind kind_ = Kind::kBytes;
  uint8_t byte_ = 0;
  DType dtype_ = DType::kFloat32;
  int which_ = 0;
  KoptDraw draw_{};
  std::shared_ptr<const std::string> host_;
  std::shared_ptr<const ShadowContent> from_;
};

/// Who stored an element, in a launch. Not set where the page's bit is not.
struct ShadowWriter {
  uint32_t segment;  ///< a stretch of one instance between barriers
  uint32_t lane;
  uint32_t access;
};
/// Who read an element, in a launch.
struct ShadowReader {
  uint32_t segment = 0;  ///< the last
  uint32_t lane = 0;     ///< kManyLanes: several of the segment
  uint32_t access = 0;
  bool others = false;  ///< another instance than the last read it too
  uint32_t other_access = 0;
};
inline constexpr uint32_t kManyLanes = 0xFFFFFFFF;

struct ShadowPage {
  std::array<uint64_t, kShadowPageElements / 64> written{};
  std::unique_ptr<char[]> data;
  std::unique_ptr<ShadowWriter[]> writers;  ///< while a launch runs
  std::unique_ptr<ShadowReader[]> readers;  ///< the same, of storages that it writes

  bool IsWritten(int64_t at) const {
    return written[static_cast<size_t>(at >> 6)] >> (at & 63) & 1;
  }
  void MarkWritten(int64_t at) {
    written[static_cast<size_t>(at >> 6)] |= uint64_t{1} << (at & 63);
  }
  bool AnyWritten(int64_t begin, int64_t end) const;
  void MarkRange(int64_t begin, int64_t end);
  int64_t Count() const;
};

using ShadowPages = std::unordered_map<int64_t, std::unique_ptr<ShadowPage>>;

class ShadowStorage {
 public:
  explicit ShadowStorage(int64_t bytes) : bytes_(bytes) {}

  int64_t bytes() const { return bytes_; }
  /// 0 while nobody has said.
  int element_bytes() const { return element_bytes_; }
  int64_t elements() const { return element_bytes_ == 0 ? 0 : bytes_ / element_bytes_; }
  const ShadowContent& content() const { return *content_; }
  const std::shared_ptr<const ShadowContent>& shared_content() const { return content_; }
  ShadowPages& pages() { return pages_; }
  const ShadowPages& pages() const { return pages_; }

  /// Forgets all that was stored.
  void SetContent(ShadowContent content);
  /// False where elements have another size already.
  bool SetElementBytes(int bytes);
  /// Content and pages of another storage.
  void CopyFrom(const ShadowStorage& other);

  uint64_t Element(int64_t index) const;
  bool IsWritten(int64_t index) const;
  /// Stores one element; the element size must be known.
  void Store(int64_t index, uint64_t bits);
  ShadowPage& PageFor(int64_t page);

 private:
  int64_t bytes_;
  int element_bytes_ = 0;
  std::shared_ptr<const ShadowContent> content_ = std::make_shared<ShadowContent>();
  ShadowPages pages_;
};

class ShadowMemory {
 public:
  /// Storages are numbered from 0 in the order of allocation; freed numbers are not
  /// used again.
  uint64_t Allocate(int64_t bytes);
  void Free(uint64_t address);
  /// The storage an address belongs to, however far outside of it; null for none.
  ShadowStorage* Find(uint64_t address);
  ShadowStorage& At(uint64_t address) { return *Find(address); }
  int64_t allocated() const { return allocated_; }

  static int Number(uint64_t address) {
    return static_cast<int>((address + (uint64_t{1} << 43)) >> 44) - 1;
  }
  /// Bytes from the storage's start; negative before it.
  static int64_t Offset(uint64_t address) {
    return static_cast<int64_t>(address - (static_cast<uint64_t>(Number(address) + 1) << 44));
  }

 private:
  std::vector<std::unique_ptr<ShadowStorage>> storages_;
  int64_t allocated_ = 0;
};

/// An empty page for elements of so many bytes.
std::unique_ptr<ShadowPage> MakeShadowPage(int element_bytes);

}  // namespace kernelopt
