#include "shadow/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "device/data.h"

namespace kernelopt {
namespace {

template <typename F>
void Store(int bytes, void* to, int64_t count, F element) {
  const auto fill = [&](auto zero) {
    auto* out = static_cast<decltype(zero)*>(to);
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<decltype(zero)>(element(i));
  };
  switch (bytes) {
    case 1:
      return fill(uint8_t{});
    case 2:
      return fill(uint16_t{});
    case 4:
      return fill(uint32_t{});
    default:
      return fill(uint64_t{});
  }
}

/// The generator with what is the same for all elements known to the compiler: most of
/// the time of a kernel with few operations goes here.
template <int kFamily, int kDtype>
[[gnu::flatten]] void Generate(KoptDraw draw, int64_t index, int bytes, int64_t count, void* to) {
  draw.family = kFamily;
  draw.dtype = kDtype;
  draw.in_envelope = 0;
  if (draw.perturbation == 0) {
    draw.perturbation = 0;  // known from here on
    return Store(bytes, to, count,
                 [&](int64_t i) { return KoptFloatDraw(&draw, static_cast<uint64_t>(index + i)); });
  }
  Store(bytes, to, count,
        [&](int64_t i) { return KoptFloatDraw(&draw, static_cast<uint64_t>(index + i)); });
}

template <int kFamily>
bool GenerateFloats(const KoptDraw& draw, int64_t index, int bytes, int64_t count, void* to) {
  switch (draw.dtype) {
    case KOPT_F32:
      Generate<kFamily, KOPT_F32>(draw, index, bytes, count, to);
      return true;
    case KOPT_BF16:
      Generate<kFamily, KOPT_BF16>(draw, index, bytes, count, to);
      return true;
    case KOPT_F16:
      Generate<kFamily, KOPT_F16>(draw, index, bytes, count, to);
      return true;
    default:
      return false;
  }
}

/// The families of screening; false where nothing was done.
bool GenerateFast(const KoptDraw& draw, int64_t index, int bytes, int64_t count, void* to) {
  if (draw.in_envelope || count < 8) return false;
  if (draw.family == KOPT_NORMAL) return GenerateFloats<KOPT_NORMAL>(draw, index, bytes, count, to);
  if (draw.family == KOPT_UNIFORM)
    return GenerateFloats<KOPT_UNIFORM>(draw, index, bytes, count, to);
  return false;
}

}  // namespace

ShadowContent ShadowContent::Bytes(uint8_t value) {
  ShadowContent content;
  content.byte_ = value;
  return content;
}

ShadowContent ShadowContent::Poison(DType dtype, int which) {
  ShadowContent content;
  content.kind_ = Kind::kPoison;
  content.dtype_ = dtype;
  content.which_ = which;
  return content;
}

ShadowContent ShadowContent::Draw(const KoptDraw& draw) {
  ShadowContent content;
  content.kind_ = Kind::kDraw;
  content.dtype_ = static_cast<DType>(draw.dtype);
  content.draw_ = draw;
  return content;
}

ShadowContent ShadowContent::Host(std::string bytes) {
  ShadowContent content;
  content.kind_ = Kind::kHost;
  content.host_ = std::make_shared<const std::string>(std::move(bytes));
  return content;
}

ShadowContent ShadowContent::Widened(std::shared_ptr<const ShadowContent> from, DType dtype) {
  ShadowContent content;
  content.kind_ = Kind::kWidened;
  content.dtype_ = dtype;
  content.from_ = std::move(from);
  return content;
}

int ShadowContent::element_bytes() const {
  if (kind_ == Kind::kPoison || kind_ == Kind::kDraw) return SizeOf(dtype_);
  return kind_ == Kind::kWidened ? 8 : 0;
}

void ShadowContent::Fill(int64_t index, int64_t count, int bytes, void* to) const {
  switch (kind_) {
    case Kind::kBytes:
      std::memset(to, byte_, static_cast<size_t>(count * bytes));
      return;
    case Kind::kHost: {
      const int64_t size = static_cast<int64_t>(host_->size());
      const int64_t begin = std::min(index * bytes, size);
      const int64_t length = std::min(count * bytes, size - begin);
      std::memcpy(to, host_->data() + begin, static_cast<size_t>(length));
      std::memset(static_cast<char*>(to) + length, 0, static_cast<size_t>(count * bytes - length));
      return;
    }
    case Kind::kPoison:
      return Store(bytes, to, count, [&](int64_t i) {
        return KoptPoison(static_cast<uint64_t>(index + i), static_cast<int>(dtype_), which_);
      });
    case Kind::kDraw:
      if (GenerateFast(draw_, index, bytes, count, to)) return;
      return Store(bytes, to, count, [&](int64_t i) {
        return KoptElement(&draw_, static_cast<uint64_t>(index + i));
      });
    case Kind::kWidened: {
      const int narrow = SizeOf(dtype_);
      std::string bits(static_cast<size_t>(count * narrow), '\0');
      from_->Fill(index, count, narrow, bits.data());
      double* values = static_cast<double*>(to);
      for (int64_t i = 0; i < count; ++i)
        values[i] = KoptDecode(LoadElement(bits.data(), i, dtype_), static_cast<int>(dtype_));
      return;
    }
  }
}

uint64_t ShadowContent::Fingerprint() const {
  uint64_t print = KoptMix(static_cast<uint64_t>(kind_) + 1);
  const auto add = [&print](uint64_t word) { print = KoptMix(print + word) + 1; };
  switch (kind_) {
    case Kind::kBytes:
      add(byte_);
      break;
    case Kind::kHost:
      for (size_t i = 0; i < host_->size(); ++i) add(static_cast<uint8_t>((*host_)[i]) + i * 256);
      break;
    case Kind::kPoison:
      add(static_cast<uint64_t>(dtype_) * 16 + static_cast<uint64_t>(which_));
      break;
    case Kind::kDraw:
      for (uint64_t word :
           {draw_.key, static_cast<uint64_t>(draw_.count), static_cast<uint64_t>(draw_.int_low),
            static_cast<uint64_t>(draw_.int_high), std::bit_cast<uint64_t>(draw_.low),
            std::bit_cast<uint64_t>(draw_.high), static_cast<uint64_t>(draw_.dtype),
            static_cast<uint64_t>(draw_.family), static_cast<uint64_t>(draw_.in_envelope),
            static_cast<uint64_t>(draw_.perturbation)})
        add(word);
      break;
    case Kind::kWidened:
      add(from_->Fingerprint());
      break;
  }
  return print;
}

bool ShadowPage::AnyWritten(int64_t begin, int64_t end) const {
  for (int64_t at = begin; at < end;) {
    const int64_t stop = std::min(end, (at | 63) + 1);
    const uint64_t bits =
        stop - at == 64 ? ~uint64_t{0} : ((uint64_t{1} << (stop - at)) - 1) << (at & 63);
    if (written[static_cast<size_t>(at >> 6)] & bits) return true;
    at = stop;
  }
  return false;
}

void ShadowPage::MarkRange(int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end;) {
    const int64_t stop = std::min(end, (at | 63) + 1);
    const uint64_t bits =
        stop - at == 64 ? ~uint64_t{0} : ((uint64_t{1} << (stop - at)) - 1) << (at & 63);
    written[static_cast<size_t>(at >> 6)] |= bits;
    at = stop;
  }
}

int64_t ShadowPage::Count() const {
  int64_t count = 0;
  for (uint64_t word : written) count += std::popcount(word);
  return count;
}

std::unique_ptr<ShadowPage> MakeShadowPage(int element_bytes) {
  auto page = std::make_unique<ShadowPage>();
  page->data.reset(new char[static_cast<size_t>(kShadowPageElements * element_bytes)]);
  return page;
}

void ShadowStorage::SetContent(ShadowContent content) {
  pages_.clear();
  if (content.element_bytes() != 0) element_bytes_ = content.element_bytes();
  content_ = std::make_shared<const ShadowContent>(std::move(content));
}

bool ShadowStorage::SetElementBytes(int bytes) {
  if (element_bytes_ == bytes) return true;
  if (!pages_.empty() || content_->element_bytes() != 0) return false;
  element_bytes_ = bytes;
  return true;
}

void ShadowStorage::CopyFrom(const ShadowStorage& other) {
  element_bytes_ = other.element_bytes_;
  content_ = other.content_;
  pages_.clear();
  for (const auto& [number, page] : other.pages_) {
    auto copy = MakeShadowPage(element_bytes_);
    copy->written = page->written;
    std::memcpy(copy->data.get(), page->data.get(),
                static_cast<size_t>(kShadowPageElements * element_bytes_));
    pages_.emplace(number, std::move(copy));
  }
}

bool ShadowStorage::IsWritten(int64_t index) const {
  const auto it = pages_.find(index / kShadowPageElements);
  return it != pages_.end() && it->second->IsWritten(index % kShadowPageElements);
}

uint64_t ShadowStorage::Element(int64_t index) const {
  uint64_t bits = 0;
  const auto it = pages_.find(index / kShadowPageElements);
  const int64_t at = index % kShadowPageElements;
  if (it != pages_.end() && it->second->IsWritten(at)) {
    std::memcpy(&bits, it->second->data.get() + at * element_bytes_,
                static_cast<size_t>(element_bytes_));
  } else {
    content_->Fill(index, 1, element_bytes_, &bits);
  }
  return bits;
}

ShadowPage& ShadowStorage::PageFor(int64_t page) {
  std::unique_ptr<ShadowPage>& found = pages_[page];
  if (!found) found = MakeShadowPage(element_bytes_);
  return *found;
}

void ShadowStorage::Store(int64_t index, uint64_t bits) {
  ShadowPage& page = PageFor(index / kShadowPageElements);
  const int64_t at = index % kShadowPageElements;
  std::memcpy(page.data.get() + at * element_bytes_, &bits, static_cast<size_t>(element_bytes_));
  page.MarkWritten(at);
}

uint64_t ShadowMemory::Allocate(int64_t bytes) {
  storages_.push_back(std::make_unique<ShadowStorage>(bytes));
  allocated_ += bytes;
  return static_cast<uint64_t>(storages_.size()) << 44;
}

void ShadowMemory::Free(uint64_t address) {
  ShadowStorage* storage = Find(address);
  if (storage == nullptr) return;
  allocated_ -= storage->bytes();
  storages_[static_cast<size_t>(Number(address))].reset();
}

ShadowStorage* ShadowMemory::Find(uint64_t address) {
  const int number = Number(address);
  if (number < 0 || number >= static_cast<int>(storages_.size())) return nullptr;
  return storages_[static_cast<size_t>(number)].get();
}

}  // namespace kernelopt
