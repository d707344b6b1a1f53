#include "cli/compare/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/report/texts.h"

namespace ct {
namespace {

std::string line(size_t name_width, const std::string& name, const std::string& seconds, const std::string& rate,
                 const std::string& of_rank, const std::string& of_process, const std::string& sent,
                 const std::string& accuracy) {
  return fmt::format("{:<{}}  {:>7}  {:>8}  {:>7}  {:>7}  {:>7}  {:>8}", name, name_width, seconds, rate, of_rank,
                     of_process, sent, accuracy);
}

std::string fixed(double number, int digits) {
  return std::isfinite(number) ? fmt::format("{:.{}f}", number, digits) : "-";
}

std::string millions(double number, int digits) { return fixed(number / 1e6, digits); }

}  // namespace

const char* const kColumnsOfWays =
    "MB/rank: the most memory that training plans for a rank; MB/proc: the most that a process used, shared pages "
    "included; MB/step: what a rank sends in a step, the mean of all ranks; -: not measured, because the way was "
    "interrupted.";

size_t name_width(std::span<const Way> ways) {
  size_t width = 0;
  for (const Way& way : ways) width = std::max(width, way.name.size());
  return width;
}

std::string head_of_ways(size_t name_width) {
  return line(name_width, "", "seconds", "images/s", "MB/rank", "MB/proc", "MB/step", "accuracy");
}

std::string line_of_way(const Way& way, size_t name_width, const report::RunRecords& records) {
  const report::EvalRecord* evaluation = newest_evaluation(records, report::EvaluatedSplit::test);
  if (evaluation == nullptr) evaluation = newest_evaluation(records, report::EvaluatedSplit::val);
  const report::Tree &peak = report::child(records.end, "peak_bytes"), &traffic = report::child(records.end, "traffic");
  // The seconds are those since the way was continued, and the memory of a rank may be that of evaluations alone.
  const bool is_whole = report::count_in(records.start, "step") <= 0;
  const double rate = report::number_in(records.end, "samples_per_sec");
  return line(name_width, way.name, is_whole ? fixed(report::number_in(records.end, "seconds"), 1) : "-",
              fixed(rate, 0), std::isfinite(rate) ? millions(report::number_in(peak, "total"), 1) : "-",
              millions(report::number_in(peak, "process"), 1), millions(report::number_in(traffic, "bytes"), 3),
              evaluation == nullptr ? "-" : report::share_text(evaluation->accuracy));
}

}  // namespace ct
