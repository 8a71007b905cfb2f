#include "base/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/json.h"

namespace kernelopt {
namespace {

void WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return;  // nobody reads any more: the run goes on without its display
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

/// Control characters of foreign text (model paths, exception texts) would
/// move the cursor; UTF-8 stays.
std::string OneLine(std::string_view text) {
  std::string out;
  for (unsigned char c : text) out += c < 0x20 || c == 0x7f ? ' ' : static_cast<char>(c);
  return out;
}

/// Columns of UTF-8 text, counted as code points.
size_t Columns(std::string_view text) {
  size_t count = 0;
  for (unsigned char c : text) count += (c & 0xc0) != 0x80;
  return count;
}

/// The first `columns` code points.
std::string_view Head(std::string_view text, size_t columns) {
  size_t position = 0;
  while (position < text.size()) {
    size_t next = position + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xc0) == 0x80) ++next;
    if (columns == 0) break;
    --columns;
    position = next;
  }
  return text.substr(0, position);
}

/// The line that stays when a step has ended, or a note.
std::string LastingLine(const RunEvent& event) {
  switch (event.kind) {
    case RunEvent::Kind::kStepEnd:
      if (event.outcome == "failed") return "";  // the error follows on standard error
      return fmt::format("{:<9} {}{}", event.step, OneLine(event.message),
                         event.outcome == "done" && event.elapsed_s >= 0.05
                             ? fmt::format("  ({})", FormatDuration(event.elapsed_s))
                             : "");
    case RunEvent::Kind::kNote:
      return event.step.empty() ? OneLine(event.message)
                                : fmt::format("{:<9} {}", "", OneLine(event.message));
    case RunEvent::Kind::kResult:
      return event.message;  // may have several lines, all ours
    default:
      return "";
  }
}

class TerminalSink : public EventSink {
 public:
  explicit TerminalSink(int descriptor) : descriptor_(descriptor) {
    ticker_ = std::jthread([this](std::stop_token stop) { Tick(stop); });
  }

  ~TerminalSink() override {
    ticker_.request_stop();
    wake_.notify_all();
    ticker_.join();
    std::lock_guard lock(mutex_);
    Clear();
  }

  void Emit(const RunEvent& event) override {
    std::lock_guard lock(mutex_);
    switch (event.kind) {
      case RunEvent::Kind::kStepBegin:
        begin_ = std::chrono::steady_clock::now();
        live_ = event;
        running_ = true;
        Draw();
        return;
      case RunEvent::Kind::kProgress:
        live_ = event;
        if (running_) Draw();
        return;
      case RunEvent::Kind::kStepEnd:
        running_ = false;
        break;
      default:
        break;
    }
    Clear();
    std::string line = LastingLine(event);
    if (!line.empty()) WriteAll(descriptor_, line + "\n");
    if (running_) Draw();
  }

 private:
  void Tick(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(lock, std::chrono::milliseconds(500));
      if (running_ && !stop.stop_requested()) Draw();
    }
  }

  void Draw() {
    winsize size{};
    size_t width = ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    double elapsed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    WriteAll(descriptor_, "\r\x1b[K" + LiveLine(live_, elapsed, width - 1));
    drawn_ = true;
  }

  void Clear() {
    if (drawn_) WriteAll(descriptor_, "\r\x1b[K");
    drawn_ = false;
  }

  int descriptor_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::chrono::steady_clock::time_point begin_;
  RunEvent live_;
  bool running_ = false;
  bool drawn_ = false;
  std::jthread ticker_;
};

class PlainSink : public EventSink {
 public:
  explicit PlainSink(int descriptor) : descriptor_(descriptor) {}

  void Emit(const RunEvent& event) override {
    std::lock_guard lock(mutex_);
    auto now = std::chrono::steady_clock::now();
    if (event.kind == RunEvent::Kind::kStepBegin) {
      last_ = now;
      return;
    }
    std::string line;
    if (event.kind == RunEvent::Kind::kProgress) {
      // A line every two seconds at most: a log is read, not watched.
      if (now - last_ < std::chrono::seconds(2)) return;
      last_ = now;
      line = LiveLine(event, event.elapsed_s, 200);
    } else {
      line = LastingLine(event);
    }
    if (!line.empty()) WriteAll(descriptor_, line + "\n");
  }

 private:
  int descriptor_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_;
};

class JsonSink : public EventSink {
 public:
  explicit JsonSink(int descriptor) : descriptor_(descriptor) {}

  void Emit(const RunEvent& event) override {
    std::lock_guard lock(mutex_);
    WriteAll(descriptor_, JsonLine(event) + "\n");
  }

 private:
  int descriptor_;
  std::mutex mutex_;
};

class QuietSink : public EventSink {
 public:
  void Emit(const RunEvent&) override {}
};

class LogSink : public EventSink {
 public:
  LogSink(int descriptor, const Clock& clock) : descriptor_(descriptor), clock_(clock) {}
  ~LogSink() override { close(descriptor_); }

  void Emit(const RunEvent& event) override {
    std::string line = JsonLine(event);
    // The time goes first, so that lines sort and scan.
    line.replace(0, 1, fmt::format("{{\"time\":{:.3f},", clock_.UnixSeconds()));
    std::lock_guard lock(mutex_);
    WriteAll(descriptor_, line + "\n");
  }

 private:
  int descriptor_;
  const Clock& clock_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<EventSink> MakeSink(OutputStyle style, int descriptor) {
  switch (style) {
    case OutputStyle::kTerminal:
      return std::make_unique<TerminalSink>(descriptor);
    case OutputStyle::kPlain:
      return std::make_unique<PlainSink>(descriptor);
    case OutputStyle::kJson:
      return std::make_unique<JsonSink>(descriptor);
    case OutputStyle::kQuiet:
      break;
  }
  return std::make_unique<QuietSink>();
}

Result<std::unique_ptr<EventSink>> MakeLogSink(const std::string& path, const Clock& clock) {
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return std::unexpected(ErrnoError(errno, "not_writable", path, "open"));
  return std::make_unique<LogSink>(descriptor, clock);
}

TeeSink::TeeSink(std::vector<EventSink*> sinks) : sinks_(std::move(sinks)) {
  std::erase(sinks_, nullptr);
}

void TeeSink::Emit(const RunEvent& event) {
  for (EventSink* sink : sinks_) sink->Emit(event);
}

std::string LiveLine(const RunEvent& event, double elapsed_s, size_t width) {
  std::string head = fmt::format("{:<9} ", event.step);
  if (event.total > 0) head += fmt::format("{} of {}  ", event.done, event.total);
  std::string tail;
  if (event.best > 0) tail += fmt::format("  best {:.3f}x", event.best);
  if (event.left_s >= 0) {
    tail += fmt::format("  about {} left", FormatDuration(event.left_s));
  } else if (elapsed_s >= 2) {
    tail += fmt::format("  {}", FormatDuration(elapsed_s));
  }
  std::string message = OneLine(event.message);
  size_t fixed = Columns(head) + Columns(tail);
  if (fixed + Columns(message) > width) {
    message = fixed + 3 <= width ? std::string(Head(message, width - fixed - 3)) + "..." : "";
  }
  return std::string(Head(head + message + tail, width));
}

std::string JsonLine(const RunEvent& event) {
  Json line;
  line["event"] = ToString(event.kind);
  if (!event.step.empty()) line["step"] = event.step;
  if (!event.message.empty()) line["message"] = event.message;
  if (!event.outcome.empty()) line["outcome"] = event.outcome;
  if (event.total > 0) {
    line["done"] = event.done;
    line["total"] = event.total;
  }
  if (event.best > 0) line["best"] = event.best;
  if (event.left_s >= 0) line["left_s"] = event.left_s;
  if (event.elapsed_s > 0) line["elapsed_s"] = event.elapsed_s;
  if (!event.data.empty()) {
    if (auto data = ParseJson(event.data, "event"); data && data->is_object()) line.update(*data);
  }
  return DumpJson(line);
}

}  // namespace kernelopt
