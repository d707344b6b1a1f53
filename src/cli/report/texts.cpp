#include "cli/report/texts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "cli/report/curve.h"
#include "metrics/console.h"
#include "metrics/log_format.h"

namespace ct::report {

std::string dash_or(std::string text) { return text.empty() ? "-" : text; }
std::string count_or_dash(int64_t count) { return count < 0 ? "-" : count_text(count); }
std::string share_text(double share) { return std::isnan(share) ? "-" : percent(share); }
std::string figure_or_dash(double number) { return std::isnan(number) ? "-" : number_text(number); }
std::string bytes_or_dash(double bytes) {
  return bytes >= 0 && bytes < 1e18 ? human_bytes(static_cast<uint64_t>(bytes)) : "-";
}
std::string time_or_dash(double seconds) {
  if (!(seconds >= 0)) return "-";
  return seconds < 10 ? number_text(seconds) + " s" : duration(std::min(seconds, 1e12));
}

std::string split_word(EvaluatedSplit split) {
  return split == EvaluatedSplit::val ? "validation" : std::string(word_of(split));
}

std::string state_of(const RunParts& run) {
  if (run.contradicts_sweep()) return str("failed: its process ended with exit code ", run.code);
  if (const std::string reason = run.reason(); !reason.empty())
    return reason == "stopped" ? "stopped on request; it can be continued"
           : reason == "diverged" && !text_in(run.records.end, "error").empty() ? text_in(run.records.end, "error")
                                                                                : reason;
  if (run.records.ended) return "ended";
  const std::string written = run.written > 0 ? ": the newest record is of " + local_time(run.written) : "";
  if (run.in_use != false) return (run.in_use ? "goes on" : "goes on, or was interrupted") + written;
  if (!run.failure.empty()) return "failed: " + run.failure;
  return (run.evaluation ? "ended, of which there is no record" : "was killed, or failed") + written;
}

bool has_failed(const RunParts& run) {
  const std::string state = brief_state_of(run);
  return state == "failed" || state == "diverged";
}

std::string brief_state_of(const RunParts& run) {
  if (run.contradicts_sweep()) return "failed";
  if (run.records.ended) return run.reason().empty() ? "ended" : run.reason();
  if (run.in_use == true) return "goes on";
  return run.in_use == false && !run.failure.empty() ? "failed" : "not ended";
}

}  // namespace ct::report
