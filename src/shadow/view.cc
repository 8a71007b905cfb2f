#include "shadow/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "shadow/lanes.h"

namespace kernelopt {
namespace {

/// Generated inputs that a worker keeps.
constexpr int64_t kInputBytes = 48 << 20;
/// They are allocated so much at a time.
constexpr int64_t kInputChunk = 1 << 20;
/// Elements in a row from which on a whole page is generated.
constexpr int64_t kWholePage = 32;

bool IsAligned(int64_t offset, int64_t bytes) {
  return (offset & (bytes - 1)) == 0;
}

}  // namespace

ShadowView::ShadowView(ShadowMemory& memory, const ShadowLaunch& launch)
    : memory_(memory), launch_(launch), accesses_(launch.program->accesses.size()) {
  for (const ShadowInstruction& each : launch.program->code) {
    switch (each.op) {
      case ShadowOp::kLoad:
      case ShadowOp::kStore:
      case ShadowOp::kAtomic:
      case ShadowOp::kCompareAndSwap:
        accesses_[static_cast<size_t>(each.extra)] = &each;
        break;
      default:
        break;
    }
  }
}

uint32_t ShadowView::NewSegment() {
  segment_instances_.push_back(instance_);
  return static_cast<uint32_t>(segment_instances_.size()) - 1;
}

void ShadowView::Enter(uint32_t instance) {
  instance_ = instance;
  segment_ = NewSegment();
}

void ShadowView::Resume(uint32_t instance, uint32_t segment) {
  instance_ = instance;
  segment_ = segment;
}

const ShadowAccess& ShadowView::AccessOf(const ShadowInstruction& instruction) const {
  return launch_.program->accesses[static_cast<size_t>(instruction.extra)];
}

ShadowFinding& ShadowView::Note(ShadowFinding::Kind kind, const ShadowInstruction& instruction) {
  const bool store = instruction.op != ShadowOp::kLoad;
  auto [it, fresh] = findings_.try_emplace({static_cast<int>(kind), instruction.line, store});
  ShadowFinding& finding = it->second;
  if (!fresh) {
    ++finding.count;
    return finding;
  }
  finding.kind = kind;
  finding.line = instruction.line;
  finding.source_line = instruction.source_line;
  finding.is_store = store;
  if (instance_ < launch_.instances.size()) finding.instance = launch_.instances[instance_];
  return finding;
}

void ShadowView::NoteConflict(ShadowFinding::Kind kind, const Place& place, uint32_t access,
                              bool store) {
  ShadowFinding& finding = Note(kind, *place.instruction);
  if (finding.count > 1) return;
  finding.is_store = store;
  finding.storage = place.number;
  finding.lane = place.lane;
  finding.index = place.page * kShadowPageElements + place.at;
  if (access < accesses_.size() && accesses_[access] != nullptr) {
    finding.other_line = accesses_[access]->line;
    finding.other_source_line = accesses_[access]->source_line;
  }
}

ShadowView::Local* ShadowView::Find(uint64_t address) {
  const int number = ShadowMemory::Number(address);
  if (number < 0) return nullptr;
  if (number >= static_cast<int>(locals_.size())) {
    if (memory_.Find(address) == nullptr) return nullptr;
    locals_.resize(static_cast<size_t>(number) + 1);
  }
  Local& local = locals_[static_cast<size_t>(number)];
  if (local.storage == nullptr) {
    local.storage = memory_.Find(address);
    if (local.storage == nullptr) return nullptr;
    local.tracked = launch_.written.empty();
    for (size_t i = 0; i < launch_.written.size() && i < launch_.arguments.size(); ++i) {
      if (launch_.written[i] && launch_.program->parameters[i].is_pointer &&
          ShadowMemory::Number(launch_.arguments[i].address) == number)
        local.tracked = true;
    }
  }
  return &local;
}

ShadowPage* ShadowView::FindPage(Local& local, int64_t page) {
  if (local.last_number == page && local.last != nullptr) return local.last;
  const auto it = local.pages.find(page);
  if (it == local.pages.end()) return nullptr;
  local.last_number = page;
  local.last = it->second.get();
  return local.last;
}

ShadowPage& ShadowView::MakePage(Local& local, int64_t page) {
  if (ShadowPage* found = FindPage(local, page)) return *found;
  auto made = MakeShadowPage(local.storage->element_bytes());
  made->writers = std::make_unique_for_overwrite<ShadowWriter[]>(kShadowPageElements);
  local.last_number = page;
  local.last = made.get();
  local.pages.emplace(page, std::move(made));
  return *local.last;
}

// --- What was there before the launch

void ShadowView::Input(Local& local, int64_t page, int64_t at, int64_t count, char* out) {
  const ShadowContent& content = local.storage->content();
  const int bytes = local.storage->element_bytes();
  const int64_t first = page * kShadowPageElements;
  if (content.is_poison() || content.element_bytes() == 0)
    return content.Fill(first + at, count, bytes, out);
  if (local.last_input != page) {
    auto it = local.inputs.find(page);
    if (it == local.inputs.end()) {
      if (count < kWholePage) return content.Fill(first + at, count, bytes, out);
      const int64_t size = kShadowPageElements * bytes;
      if (input_bytes_ + size > kInputBytes) {
        for (Local& each : locals_) {
          each.inputs.clear();
          each.last_input = -1;
        }
        input_chunks_.clear();
        input_bytes_ = 0;
      }
      const int64_t used = input_bytes_ % kInputChunk;
      if (used == 0 || used + size > kInputChunk) {
        input_bytes_ = static_cast<int64_t>(input_chunks_.size()) * kInputChunk;
        input_chunks_.push_back(std::make_unique_for_overwrite<char[]>(kInputChunk));
      }
      char* const made = input_chunks_.back().get() + input_bytes_ % kInputChunk;
      input_bytes_ += size;
      const int64_t left = local.storage->elements() - first;
      content.Fill(first, std::min(kShadowPageElements, left), bytes, made);
      it = local.inputs.emplace(page, made).first;
    }
    local.last_input = page;
    local.input = it->second;
  }
  std::memcpy(out, local.input + at * bytes, static_cast<size_t>(count * bytes));
}

void ShadowView::Before(Local& local, int64_t page, int64_t at, int64_t count, char* out) {
  const ShadowPages& pages = local.storage->pages();
  const int bytes = local.storage->element_bytes();
  const auto it = pages.empty() ? pages.end() : pages.find(page);
  if (it == pages.end()) return Input(local, page, at, count, out);
  for (int64_t i = 0; i < count; ++i) {
    char* to = out + i * bytes;
    if (it->second->IsWritten(at + i))
      std::memcpy(to, it->second->data.get() + (at + i) * bytes, static_cast<size_t>(bytes));
    else
      local.storage->content().Fill(page * kShadowPageElements + at + i, 1, bytes, to);
  }
}

uint64_t ShadowView::ElementBefore(Local& local, int64_t page, int64_t at) {
  uint64_t bits = 0;
  Before(local, page, at, 1, reinterpret_cast<char*>(&bits));
  return bits;
}

// --- Elements

void ShadowView::ReadElement(const Place& place, ShadowPage& page, char* out) {
  Local& local = *place.local;
  const int bytes = local.storage->element_bytes();
  const size_t at = static_cast<size_t>(place.at);
  if (page.IsWritten(place.at)) {
    std::memcpy(out, page.data.get() + place.at * bytes, static_cast<size_t>(bytes));
    const ShadowWriter& writer = page.writers[at];
    if (writer.segment != kAtomicSegment) {
      if (InstanceOf(writer.segment) != instance_) {
        uint64_t now = 0;
        std::memcpy(&now, out, static_cast<size_t>(bytes));
        if (!launch_.program->may_wait && now != ElementBefore(local, place.page, place.at))
          NoteConflict(ShadowFinding::Kind::kReadWrite, place, writer.access, false);
      } else if (writer.segment == segment_ &&
                 (place.many || writer.lane != static_cast<uint32_t>(place.lane))) {
        NoteConflict(ShadowFinding::Kind::kLaneConflict, place, writer.access, false);
      }
    }
  } else {
    if (local.storage->content().is_poison() &&
        !local.storage->IsWritten(place.page * kShadowPageElements + place.at))
      NoteConflict(ShadowFinding::Kind::kUnwritten, place, kManyLanes, false);
    Before(local, place.page, place.at, 1, out);
  }
  if (!page.readers) return;
  ShadowReader& reader = page.readers[at];
  const uint32_t lane = place.many ? kManyLanes : static_cast<uint32_t>(place.lane);
  if (reader.segment != 0 && InstanceOf(reader.segment) != instance_) {
    reader.others = true;
    reader.other_access = reader.access;
  }
  reader.access = static_cast<uint32_t>(place.instruction->extra);
  if (reader.segment == segment_) {
    if (reader.lane != lane) reader.lane = kManyLanes;
  } else {
    reader.segment = segment_;
    reader.lane = lane;
  }
}

void ShadowView::WriteElement(const Place& place, ShadowPage& page, const char* from) {
  Local& local = *place.local;
  const int bytes = local.storage->element_bytes();
  char* data = page.data.get() + place.at * bytes;
  const bool was_written = page.IsWritten(place.at);
  uint64_t old = 0, now = 0;
  if (was_written)
    std::memcpy(&old, data, static_cast<size_t>(bytes));
  else
    old = ElementBefore(local, place.page, place.at);
  std::memcpy(&now, from, static_cast<size_t>(bytes));
  const bool changes = old != now;
  ShadowWriter& writer = page.writers[static_cast<size_t>(place.at)];
  const bool ordered = launch_.program->may_wait;
  if (was_written && changes && writer.segment != kAtomicSegment) {
    if (InstanceOf(writer.segment) != instance_) {
      if (!ordered) NoteConflict(ShadowFinding::Kind::kWriteWrite, place, writer.access, true);
    } else if (writer.segment == segment_ && writer.lane != static_cast<uint32_t>(place.lane)) {
      NoteConflict(ShadowFinding::Kind::kLaneConflict, place, writer.access, true);
    }
  }
  if (page.readers && changes) {
    const ShadowReader& reader = page.readers[static_cast<size_t>(place.at)];
    if (reader.segment != 0) {
      const bool another = InstanceOf(reader.segment) != instance_;
      if ((another || reader.others) && !ordered)
        NoteConflict(ShadowFinding::Kind::kReadWrite, place,
                     another ? reader.access : reader.other_access, true);
      else if (reader.segment == segment_ && reader.lane != static_cast<uint32_t>(place.lane))
        NoteConflict(ShadowFinding::Kind::kLaneConflict, place, reader.access, true);
    }
  }
  if (changes) ++version_;
  std::memcpy(data, from, static_cast<size_t>(bytes));
  page.MarkWritten(place.at);
  writer = {segment_, static_cast<uint32_t>(place.lane),
            static_cast<uint32_t>(place.instruction->extra)};
}

// --- Runs: lanes whose addresses follow each other

void ShadowView::ReadSegment(const Place& place, int64_t count, char* out) {
  Local& local = *place.local;
  if (!local.tracked) {
    Before(local, place.page, place.at, count, out);
    if (!local.storage->content().is_poison()) return;
    for (int64_t i = 0; i < count; ++i) {
      if (local.storage->IsWritten(place.page * kShadowPageElements + place.at + i)) continue;
      Place each = place;
      each.at += i;
      each.lane += i;
      NoteConflict(ShadowFinding::Kind::kUnwritten, each, kManyLanes, false);
    }
    return;
  }
  ShadowPage& page = MakePage(local, place.page);
  if (!page.readers) page.readers.reset(new ShadowReader[kShadowPageElements]);
  const int bytes = local.storage->element_bytes();
  const bool plain =
      !page.AnyWritten(place.at, place.at + count) && !local.storage->content().is_poison();
  if (plain) Before(local, place.page, place.at, count, out);
  char scratch[8];
  for (int64_t i = 0; i < count; ++i) {
    ShadowReader& reader = page.readers[static_cast<size_t>(place.at + i)];
    if (plain && reader.segment == 0) {
      const uint32_t lane = place.many ? kManyLanes : static_cast<uint32_t>(place.lane + i);
      reader = {segment_, lane, static_cast<uint32_t>(place.instruction->extra)};
      continue;
    }
    Place each = place;
    each.at += i;
    each.lane += i;
    ReadElement(each, page, plain ? scratch : out + i * bytes);
  }
}

void ShadowView::WriteSegment(const Place& place, int64_t count, const char* from) {
  Local& local = *place.local;
  const int bytes = local.storage->element_bytes();
  ShadowPage& page = MakePage(local, place.page);
  if (!page.readers && !page.AnyWritten(place.at, place.at + count)) {
    std::memcpy(page.data.get() + place.at * bytes, from, static_cast<size_t>(count * bytes));
    page.MarkRange(place.at, place.at + count);
    ShadowWriter* writers = page.writers.get() + place.at;
    const uint32_t access = static_cast<uint32_t>(place.instruction->extra);
    for (int64_t i = 0; i < count; ++i)
      writers[i] = {segment_, static_cast<uint32_t>(place.lane + i), access};
    ++version_;
    return;
  }
  Place each = place;
  for (int64_t i = 0; i < count; ++i, ++each.at, ++each.lane)
    WriteElement(each, page, from + i * bytes);
}

bool ShadowView::Clip(const ShadowInstruction& instruction, uint64_t address, int64_t* lane,
                      int64_t* count, Local** local, int64_t* index, bool store) {
  const int64_t bytes = MemoryBytes(instruction.kind);
  *local = Find(address);
  const int64_t offset = ShadowMemory::Offset(address);
  const auto note = [&](ShadowFinding::Kind kind, int64_t at, int64_t amount, int64_t lanes) {
    ShadowFinding& finding = Note(kind, instruction);
    if (finding.count > 1) {
      finding.count += lanes - 1;
      return;
    }
    finding.count = lanes;
    finding.is_store = store;
    finding.storage = *local == nullptr ? -1 : ShadowMemory::Number(address);
    finding.lane = at;
    finding.amount = amount;
    finding.index = (offset + (at - *lane) * bytes) / bytes;
  };
  if (*local == nullptr) {
    note(ShadowFinding::Kind::kOutOfBounds, *lane, 0, *count);
    return false;
  }
  const int64_t size = (*local)->storage->bytes();
  if ((*local)->storage->element_bytes() != bytes && error_.empty()) {
    error_ = fmt::format("line {} accesses elements of {} bytes in a storage of elements of {}",
                         instruction.line, bytes, (*local)->storage->element_bytes());
  }
  if (!error_.empty()) return false;
  if (!IsAligned(offset, bytes)) {
    note(ShadowFinding::Kind::kMisaligned, *lane, 0, *count);
    return false;
  }
  int64_t first = offset / bytes, begin = 0, end = *count;
  const int64_t elements = size / bytes;
  if (first < 0) {
    begin = std::min(-first, end);
    note(ShadowFinding::Kind::kOutOfBounds, *lane, offset, begin);
  }
  if (first + end > elements) {
    const int64_t stop = std::max(elements - first, begin);
    if (stop < end)
      note(ShadowFinding::Kind::kOutOfBounds, *lane + end - 1, (first + end) * bytes - size,
           end - stop);
    end = stop;
  }
  *index = first + begin;
  *lane += begin;
  *count = end - begin;
  return *count > 0;
}

void ShadowView::ReadRun(const ShadowInstruction& instruction, uint64_t address, int64_t lane,
                         int64_t count, bool many, char* out) {
  const int64_t bytes = MemoryBytes(instruction.kind), start = lane, whole = count;
  Local* local = nullptr;
  int64_t index = 0;
  if (!Clip(instruction, address, &lane, &count, &local, &index, false)) {
    std::memset(out, 0, static_cast<size_t>(whole * bytes));
    return;
  }
  if (count != whole) std::memset(out, 0, static_cast<size_t>(whole * bytes));
  out += (lane - start) * bytes;
  const int number = ShadowMemory::Number(address);
  while (count > 0) {
    const int64_t page = index / kShadowPageElements, at = index % kShadowPageElements;
    const int64_t part = std::min(count, kShadowPageElements - at);
    ReadSegment({&instruction, number, local, page, at, lane, many}, part, out);
    out += part * bytes;
    index += part;
    lane += part;
    count -= part;
  }
}

void ShadowView::WriteRun(const ShadowInstruction& instruction, uint64_t address, int64_t lane,
                          int64_t count, const char* from) {
  const int64_t bytes = MemoryBytes(instruction.kind), start = lane;
  Local* local = nullptr;
  int64_t index = 0;
  if (!Clip(instruction, address, &lane, &count, &local, &index, true)) return;
  from += (lane - start) * bytes;
  const int number = ShadowMemory::Number(address);
  local->tracked = true;
  while (count > 0) {
    const int64_t page = index / kShadowPageElements, at = index % kShadowPageElements;
    const int64_t part = std::min(count, kShadowPageElements - at);
    WriteSegment({&instruction, number, local, page, at, lane}, part, from);
    from += part * bytes;
    index += part;
    lane += part;
    count -= part;
  }
}

// --- Accesses

namespace {

/// Calls run(first lane, lanes, others with the same address after a single lane).
template <typename F>
void ForRuns(const uint64_t* pointers, const uint8_t* mask, int64_t lanes, uint64_t bytes, F run) {
  for (int64_t i = 0; i < lanes;) {
    if (mask != nullptr && !mask[i]) {
      ++i;
      continue;
    }
    const int64_t start = i++;
    uint64_t next = pointers[start] + bytes;
    if (mask == nullptr) {
      while (i < lanes && pointers[i] == next) ++i, next += bytes;
    } else {
      while (i < lanes && pointers[i] == next && mask[i]) ++i, next += bytes;
    }
    int64_t same = 0;
    if (i - start == 1)
      while (i + same < lanes && pointers[i + same] == pointers[start] &&
             (mask == nullptr || mask[i + same]))
        ++same;
    run(start, i - start, same);
    i += same;
  }
}

}  // namespace

void ShadowView::Load(const ShadowInstruction& instruction, const AccessLanes& given) {
  AccessLanes a = given;
  const ShadowKind kind = instruction.kind;
  const int64_t bytes = MemoryBytes(kind);
  const bool none = a.mask != nullptr && a.mask_uniform && !a.mask[0];
  if (a.mask != nullptr && a.mask_uniform) a.mask = nullptr;
  raw_.resize(static_cast<size_t>(a.lanes * bytes));
  if (a.mask != nullptr || none) std::memset(raw_.data(), 0, raw_.size());
  if (!none && a.pointers_uniform && a.lanes > 1) {
    addresses_.assign(static_cast<size_t>(a.lanes), a.pointers[0]);
    a.pointers = addresses_.data();
  }
  if (!none) {
    ForRuns(a.pointers, a.mask, a.lanes, static_cast<uint64_t>(bytes),
            [&](int64_t lane, int64_t count, int64_t same) {
              char* out = raw_.data() + lane * bytes;
              ReadRun(instruction, a.pointers[lane], lane, count, same > 0, out);
              for (int64_t i = 1; i <= same; ++i)
                std::memcpy(out + i * bytes, out, static_cast<size_t>(bytes));
            });
  }
  FromMemory(kind, raw_.data(), a.out, a.lanes);
  if (a.value == nullptr || (a.mask == nullptr && !none)) return;
  const size_t size = static_cast<size_t>(SlotBytes(kind));
  char* out = static_cast<char*>(a.out);
  for (int64_t i = 0; i < a.lanes; ++i) {
    if (!none && a.mask[i]) continue;
    const int64_t from = a.value_uniform ? 0 : i;
    std::memcpy(out + static_cast<size_t>(i) * size,
                static_cast<const char*>(a.value) + static_cast<size_t>(from) * size, size);
  }
}

void ShadowView::Store(const ShadowInstruction& instruction, const AccessLanes& given) {
  AccessLanes a = given;
  const ShadowKind kind = instruction.kind;
  const int64_t bytes = MemoryBytes(kind);
  if (a.mask != nullptr && a.mask_uniform) {
    if (!a.mask[0]) return;
    a.mask = nullptr;
  }
  raw_.resize(static_cast<size_t>(a.lanes * bytes));
  if (a.value_uniform && a.lanes > 1) {
    char one[8];
    ToMemory(kind, a.value, one, 1);
    CopyLanes(static_cast<int>(bytes), raw_.data(), one, true, a.lanes);
  } else {
    ToMemory(kind, a.value, raw_.data(), a.lanes);
  }
  if (a.pointers_uniform && a.lanes > 1) {
    addresses_.assign(static_cast<size_t>(a.lanes), a.pointers[0]);
    a.pointers = addresses_.data();
  }
  ForRuns(a.pointers, a.mask, a.lanes, static_cast<uint64_t>(bytes),
          [&](int64_t lane, int64_t count, int64_t same) {
            WriteRun(instruction, a.pointers[lane], lane, count, raw_.data() + lane * bytes);
            for (int64_t i = 1; i <= same; ++i)
              WriteRun(instruction, a.pointers[lane], lane + i, 1,
                       raw_.data() + (lane + i) * bytes);
          });
}

}  // namespace kernelopt
