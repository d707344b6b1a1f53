#include "comm/watchdog/watchdog_rules.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace ct {
namespace {

int culprit(std::span<const Signs> ranks) {
  const auto order = [](const Signs& s) { return std::tuple(s.ended, s.waiting, s.collectives); };
  const auto least =
      std::min_element(ranks.begin(), ranks.end(), [&](const Signs& a, const Signs& b) { return order(a) < order(b); });
  return static_cast<int>(least - ranks.begin());
}

}  // namespace

Signs signs_of(const Heartbeat& heartbeat) {
  constexpr auto relaxed = std::memory_order_relaxed;
  return {.beats = heartbeat.beats.load(relaxed),
          .progress = heartbeat.progress.load(relaxed),
          .collectives = heartbeat.collectives.load(relaxed),
          .phase = heartbeat.phase.load(relaxed),
          .waiting = static_cast<uint8_t>(heartbeat.waiting.load(relaxed) != 0),
          .ended = static_cast<uint8_t>(heartbeat.ended.load(relaxed) != 0)};
}

std::string text_of(const Finding& finding, const Signs& signs, const RankPlace& place) {
  std::string what = "was lost";
  const auto whole_seconds = static_cast<int64_t>(finding.seconds + 0.5);
  if (finding.what == Finding::What::silent) what = str("is silent for ", whole_seconds, " s");
  if (finding.what == Finding::What::stuck) what = str("makes no progress for ", whole_seconds, " s");
  return str("rank ", finding.rank, " (pid ", place.pid, ", host ", place.host, ") ", what, " in phase ",
             name_of(signs.phase), ", collective ", signs.collectives,
             ": start the same command again; it continues from the last checkpoint");
}

WatchdogRules::WatchdogRules(int ranks, Supervision deadlines, double now)
    : heard_(static_cast<size_t>(ranks), Heard{.at = now}), deadlines_(deadlines), looked_at_(now), moved_at_(now) {}

std::optional<Finding> WatchdogRules::look(double now, std::span<const Signs> ranks) {
  const bool jumped = now - looked_at_ > std::clamp(deadlines_.heartbeat_s / 2, 0.3, 1.0);
  looked_at_ = now;
  if (jumped) moved_at_ = now;
  for (size_t r = 0; r < ranks.size(); ++r) {
    Heard& heard = heard_[r];
    const uint64_t moves = ranks[r].progress + ranks[r].collectives;
    if (jumped || ranks[r].beats != heard.beats) heard.at = now;
    if (moves != heard.moves) moved_at_ = now;
    heard.beats = ranks[r].beats;
    heard.moves = moves;
  }

  const auto find = [&](Finding::What what, auto holds) -> std::optional<Finding> {
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r].ended == 0 && holds(r)) return Finding{static_cast<int>(r), what, now - heard_[r].at};
    }
    return std::nullopt;
  };
  if (auto lost = find(Finding::What::lost, [&](size_t r) { return ranks[r].gone != 0; })) return lost;
  if (auto silent = find(Finding::What::silent, [&](size_t r) { return now - heard_[r].at > deadlines_.heartbeat_s; }))
    return silent;
  const int slowest = culprit(ranks);
  if (now - moved_at_ > deadlines_.timeout_s && ranks[static_cast<size_t>(slowest)].ended == 0)
    return Finding{slowest, Finding::What::stuck, now - moved_at_};
  return std::nullopt;
}

}  // namespace ct
