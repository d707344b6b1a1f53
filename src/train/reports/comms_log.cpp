#include "train/reports/comms_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "train/config/schema.h"

namespace ct {
namespace {

constexpr std::array<std::string_view, 3> kNames = {AllReduce::kName, ReduceScatter::kName, AllGather::kName};

/// DeepSpeed has all_gather_into_tensor, reduce_scatter_tensor and so on.
bool names(const std::string& word, std::string_view collective) { return word.starts_with(collective); }

std::string size_text(int64_t bytes) { return human_bytes(static_cast<uint64_t>(bytes)); }

}  // namespace

Bandwidth bandwidth(const Exchange& exchange, int ranks) {
  const double algorithm = 8 * static_cast<double>(exchange.bytes) / std::max(exchange.seconds, 1e-9);
  const double share = static_cast<double>(ranks - 1) / ranks;
  return {algorithm, algorithm * (exchange.name == AllReduce::kName ? 2 * share : share)};
}

std::function<void(const Exchange&)> CommsLog::listener() {
  if (!keys_.enabled) return nullptr;
  return [this](const Exchange& exchange) { add(exchange); };
}

std::string CommsLog::doubt() const {
  if (!keys_.enabled) return "";
  if (ranks_ == 1) return "comms_logger: one rank has nothing to exchange";
  if (keys_.prof_all) return "";
  if (keys_.prof_ops.empty())
    return "comms_logger logs nothing: prof_all is false, and prof_ops is empty; set one of them";
  for (const std::string& word : keys_.prof_ops)
    if (std::ranges::none_of(kNames, [&](std::string_view name) { return names(word, name); }))
      return str("comms_logger.prof_ops ", word, " is not a collective of this program; use ",
                 join_choices({kNames.begin(), kNames.end()}));
  return "";
}

bool CommsLog::wanted(const Exchange& exchange) const {
  return keys_.prof_all ||
         std::ranges::any_of(keys_.prof_ops, [&](const std::string& word) { return names(word, exchange.name); });
}

std::string CommsLog::label(const Exchange& exchange) const {
  return keys_.debug ? exchange.name + " [" + exchange.what + "]" : exchange.name;
}

void CommsLog::add(const Exchange& exchange) {
  if (!wanted(exchange)) return;
  const std::lock_guard lock(mutex_);
  Calls& calls = calls_[{label(exchange), exchange.name, exchange.bytes}];
  ++calls.count;
  calls.seconds += exchange.seconds;
  if (!keys_.verbose) return;
  const Bandwidth reached = bandwidth(exchange, ranks_);
  lines_.push_back(fmt::format(
      "comm op: {} | time (ms): {:.2f} | msg size: {} | algbw (Gbps): {:.2f} | busbw (Gbps): {:.2f}", label(exchange),
      1e3 * exchange.seconds, size_text(exchange.bytes), reached.algorithm / 1e9, reached.bus / 1e9));
}

std::vector<std::string> CommsLog::take_lines() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

std::vector<std::string> CommsLog::table() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines = {fmt::format("{:<28}{:<16}{:<10}{:<20}{:<18}{:<18}{}", "Comm. Op", "Message Size",
                                                "Count", "Total Latency(ms)", "Avg Latency(ms)", "tput_avg (Gbps)",
                                                "busbw_avg (Gbps)")};
  for (const auto& [key, calls] : calls_) {
    const double mean = calls.seconds / static_cast<double>(calls.count);
    const Bandwidth reached = bandwidth({.name = key.name, .what = "", .bytes = key.bytes, .seconds = mean}, ranks_);
    lines.push_back(fmt::format("{:<28}{:<16}{:<10}{:<20.2f}{:<18.2f}{:<18.2f}{:.2f}", key.label, size_text(key.bytes),
                                calls.count, 1e3 * calls.seconds, 1e3 * mean, reached.algorithm / 1e9,
                                reached.bus / 1e9));
  }
  return lines;
}

}  // namespace ct
