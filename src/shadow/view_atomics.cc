// Atomic updates, and joining the workers' pages.
#include <algorithm>
#include <bit>
#include <cstring>

#include "shadow/lanes.h"
#include "shadow/view.h"

namespace kernelopt {
namespace {

int64_t Signed(uint64_t bits, int64_t bytes) {
  const int shift = static_cast<int>(64 - 8 * bytes);
  return static_cast<int64_t>(bits << shift) >> shift;
}

uint64_t AddFloats(uint64_t a, uint64_t b, ShadowKind kind) {
  if (kind == ShadowKind::kF64)
    return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
  float x = 0, y = 0;
  FromMemory(kind, &a, &x, 1);
  FromMemory(kind, &b, &y, 1);
  x += y;
  uint64_t bits = 0;
  ToMemory(kind, &x, &bits, 1);
  return bits;
}

uint64_t Combine(const std::string& op, uint64_t a, uint64_t b, ShadowKind kind) {
  const int64_t bytes = MemoryBytes(kind);
  const int64_t x = Signed(a, bytes), y = Signed(b, bytes);
  if (op == "fadd") return AddFloats(a, b, kind);
  if (op == "add") return a + b;
  if (op == "and") return a & b;
  if (op == "or") return a | b;
  if (op == "xor") return a ^ b;
  if (op == "exch") return b;
  if (op == "max") return x > y ? a : b;
  if (op == "min") return x < y ? a : b;
  if (op == "umax") return a > b ? a : b;
  return a < b ? a : b;  // umin
}

}  // namespace

void ShadowView::Atomic(const ShadowInstruction& instruction, const AccessLanes& a) {
  const ShadowAccess& access = AccessOf(instruction);
  const ShadowKind kind = instruction.kind;
  const int64_t bytes = MemoryBytes(kind), slot = SlotBytes(kind);
  const auto lane_of = [slot](const void* values, bool uniform, int64_t lane) {
    return static_cast<const char*>(values) + (uniform ? 0 : lane) * slot;
  };
  for (int64_t lane = 0; lane < a.lanes; ++lane) {
    char* out = static_cast<char*>(a.out) + lane * slot;
    std::memset(out, 0, static_cast<size_t>(slot));
    if (a.mask != nullptr && !a.mask[a.mask_uniform ? 0 : lane]) continue;
    const uint64_t address = a.pointers[a.pointers_uniform ? 0 : lane];
    int64_t at = lane, count = 1, index = 0;
    Local* local = nullptr;
    if (!Clip(instruction, address, &at, &count, &local, &index, true)) continue;
    local->tracked = true;
    const int64_t number = index / kShadowPageElements, place = index % kShadowPageElements;
    ShadowPage& page = MakePage(*local, number);
    char* data = page.data.get() + place * bytes;
    uint64_t old = 0, value = 0;
    if (page.IsWritten(place)) {
      std::memcpy(&old, data, static_cast<size_t>(bytes));
    } else {
      if (local->storage->content().is_poison() && !local->storage->IsWritten(index))
        NoteConflict(ShadowFinding::Kind::kUnwritten,
                     {&instruction, ShadowMemory::Number(address), local, number, place, lane},
                     kManyLanes, true);
      old = ElementBefore(*local, number, place);
    }
    ToMemory(kind, lane_of(a.value, a.value_uniform, lane), &value, 1);
    uint64_t now = value;
    if (access.atomic == "cas") {
      uint64_t wanted = 0;
      ToMemory(kind, lane_of(a.compare, a.compare_uniform, lane), &wanted, 1);
      now = old == wanted ? value : old;
    } else {
      now = Combine(access.atomic, old, value, kind);
    }
    uint64_t kept = 0;
    std::memcpy(&kept, &now, static_cast<size_t>(bytes));
    if (kept != old) ++version_;
    std::memcpy(data, &kept, static_cast<size_t>(bytes));
    page.MarkWritten(place);
    page.writers[static_cast<size_t>(place)] = {kAtomicSegment, 0,
                                                static_cast<uint32_t>(instruction.extra)};
    FromMemory(kind, &old, out, 1);
  }
}

void ShadowView::Check(ShadowView& other) {
  const size_t count = std::min(locals_.size(), other.locals_.size());
  for (size_t number = 0; number < count; ++number) {
    Local& mine = locals_[number];
    Local& its = other.locals_[number];
    if (mine.storage == nullptr || its.storage == nullptr) continue;
    const int bytes = mine.storage->element_bytes();
    for (const auto& [page_number, page] : mine.pages) {
      const auto found = its.pages.find(page_number);
      if (found == its.pages.end()) continue;
      const ShadowPage& theirs = *found->second;
      for (int64_t at = 0; at < kShadowPageElements; ++at) {
        if (!page->IsWritten(at)) continue;
        uint64_t value = 0;
        std::memcpy(&value, page->data.get() + at * bytes, static_cast<size_t>(bytes));
        const ShadowWriter& writer = page->writers[static_cast<size_t>(at)];
        instance_ = InstanceOf(writer.segment);
        const Place place{accesses_[writer.access],
                          static_cast<int>(number),
                          &mine,
                          page_number,
                          at,
                          writer.lane};
        if (theirs.IsWritten(at)) {
          uint64_t theirs_value = 0;
          std::memcpy(&theirs_value, theirs.data.get() + at * bytes, static_cast<size_t>(bytes));
          if (theirs_value != value)
            NoteConflict(ShadowFinding::Kind::kWriteWrite, place,
                         theirs.writers[static_cast<size_t>(at)].access, true);
        }
        if (theirs.readers && theirs.readers[static_cast<size_t>(at)].segment != 0 &&
            value != ElementBefore(mine, page_number, at))
          NoteConflict(ShadowFinding::Kind::kReadWrite, place,
                       theirs.readers[static_cast<size_t>(at)].access, true);
      }
    }
  }
}

void ShadowView::Commit() {
  for (Local& local : locals_) {
    if (local.storage == nullptr) continue;
    const int bytes = local.storage->element_bytes();
    for (auto& [number, page] : local.pages) {
      if (!page->AnyWritten(0, kShadowPageElements)) continue;
      page->writers.reset();
      page->readers.reset();
      auto [it, fresh] = local.storage->pages().try_emplace(number);
      if (fresh) {
        it->second = std::move(page);
        continue;
      }
      for (int64_t at = 0; at < kShadowPageElements; ++at) {
        if (!page->IsWritten(at)) continue;
        std::memcpy(it->second->data.get() + at * bytes, page->data.get() + at * bytes,
                    static_cast<size_t>(bytes));
        it->second->MarkWritten(at);
      }
    }
    local.pages.clear();
    local.last = nullptr;
    local.last_number = -1;
  }
}

}  // namespace kernelopt
