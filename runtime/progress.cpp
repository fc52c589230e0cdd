// SPDX-License-Identifier: Apache-2.0
// What is shown, and how seldom; the console knows how.
#include <mezzo/runtime/progress.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mezzo::runtime {
namespace {

constexpr std::chrono::milliseconds kBetweenFrames{50};
constexpr std::chrono::seconds kBetweenLines{10};
constexpr int64_t kBarWidth = 20;

}  // namespace

Progress::Progress(std::string title, int64_t total, Console& target)
    : title_(std::move(title)), total_(std::max<int64_t>(total, 0)), console_(target) {}

Progress::~Progress() {
  if (finished_) return;
  try {
    console_.end_status();
  } catch (...) {  // a status that stays is better than a program that ends
  }
}

std::string Progress::described(int64_t done, std::string_view text, bool bar) const {
  std::string out = title_;
  if (total_ == 0) {
    out += fmt::format(" {}", done);
  } else {
    const double share = static_cast<double>(done) / static_cast<double>(total_);
    if (bar) {
      const auto filled = static_cast<size_t>(share * static_cast<double>(kBarWidth));
      out += " [" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "]";
    }
    out += fmt::format(" {:3}%", static_cast<int>(share * 100));
  }
  if (!text.empty()) out.append(" ").append(text);
  return out;
}

void Progress::update(int64_t done, std::string_view text) {
  if (total_ > 0) done = std::clamp<int64_t>(done, 0, total_);
  const Clock::time_point now = Clock::now();
  if (console_.style().rewrites) {
    if (now - shown_ < kBetweenFrames) return;
    shown_ = now;
    console_.status(described(done, text, true));
    return;
  }
  if (total_ > 0) {
    const auto tenths =
        static_cast<int64_t>(10 * (static_cast<double>(done) / static_cast<double>(total_)));
    // The last tenth is what finish() reports.
    if (tenths <= tenths_ || tenths >= 10) return;
    tenths_ = tenths;
  } else {
    if (now - std::max(shown_, start_) < kBetweenLines) return;
    shown_ = now;
  }
  console_.log(Level::Info, described(done, text, false));
}

void Progress::finish(std::string_view text) {
  if (std::exchange(finished_, true)) return;
  console_.end_status();
  const std::chrono::duration<double> seconds = Clock::now() - start_;
  std::string line = fmt::format("{} {:.1f} s", title_, seconds.count());
  if (!text.empty()) line.append(" ").append(text);
  console_.log(Level::Info, line);
}

}  // namespace mezzo::runtime
