#include "cli/sweep/records.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/text.h"

namespace ct {

Json sweep_record(const std::vector<SweepOutcome>& runs, const std::string& initial) {
  Json names = Json::array(), keys = Json::array();
  for (const SweepOutcome& outcome : runs) {
    names.push_back(outcome.run.folder());
    for (const ConfigOverride& set : outcome.run.overrides())
      if (std::ranges::find(keys, Json(set.key)) == keys.end()) keys.push_back(set.key);
  }
  return {{"event", "sweep"}, {"initial", initial}, {"runs", names}, {"keys", keys}};
}

Json begin_record(const SweepOutcome& run, double time) {
  return {{"event", "begin"}, {"run", run.run.folder()}, {"time", time}};
}

Json end_record(const SweepOutcome& run, int code, double seconds) {
  return {{"event", "run"},
          {"run", run.run.folder()},
          {"code", code},
          {"seconds", seconds},
          {"ended", local_time(std::time(nullptr))},
          {"config_crc32c", run.fingerprint}};
}

std::vector<SweepRecord> read_sweep_records(const Path& file) {
  std::vector<SweepRecord> records;
  each_line(file, [&](std::string_view line, bool) {
    Json whole = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!whole.is_object()) return;
    const auto text = [&](const char* key) {
      const auto at = whole.find(key);
      return at != whole.end() && at->is_string() ? at->get<std::string>() : "";
    };
    const auto number = [&](const char* key) {
      const auto at = whole.find(key);
      return at != whole.end() && at->is_number() ? at->get<double>() : 0;
    };
    SweepRecord record;
    record.event = text("event"), record.run = text("run"), record.initial = text("initial");
    record.ended = text("ended"), record.config_crc32c = text("config_crc32c");
    record.time = number("time"), record.seconds = number("seconds"), record.code = number("code");
    record.whole = std::move(whole);
    records.push_back(std::move(record));
  });
  return records;
}

}  // namespace ct
