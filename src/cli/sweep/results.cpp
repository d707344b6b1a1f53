#include "cli/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/version.h"
#include "metrics/log_format.h"
#include "metrics/metrics_log.h"
#include "train/config/schema.h"
#include "train/model_selection.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

/// The number under a key; NaN where there is none, as for a loss that was not finite.
double number(const Json& record, const char* key) {
  const auto at = record.find(key);
  return at != record.end() && at->is_number() ? at->get<double>() : std::nan("");
}
int64_t count(const Json& record, const char* key) {
  const auto at = record.find(key);
  return at != record.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
}

/// "1.50 ± 0.25"; without the deviation where there is one number, "-" where there is none. `scale`: what the mean is
/// multiplied by, after it was taken, so that a share is rounded to the same percent as in a report.
std::string spread_text(const std::vector<double>& numbers, int digits, double scale = 1) {
  if (numbers.empty()) return "-";
  const auto [mean, deviation] = mean_and_deviation(numbers);
  const std::string text = fmt::format("{:.{}f}", scale * mean, digits);
  return numbers.size() == 1 ? text : text + fmt::format(" ± {:.{}f}", scale * deviation, digits);
}

std::string loss_text(double loss) { return std::isnan(loss) ? "-" : fmt::format("{:.9g}", loss); }

std::string escaped_for_markdown(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

/// Columns as wide as they must be; characters beyond ASCII count once.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

constexpr std::string_view kSeal = "cifar-train sweep, CRC32C ";

bool is_sealed(const std::string& text) {
  const size_t seal = text.find(kSeal), line = text.find('\n');
  return line != std::string::npos && seal < line &&
         text.substr(seal + kSeal.size(), 8) == crc_text(crc32c(std::string_view(text).substr(line + 1)));
}

/// A crash may leave an empty file.
bool are_records(const std::string& text) {
  const Json first = Json::parse(text.substr(0, text.find('\n')), nullptr, /*allow_exceptions=*/false);
  return text.empty() || (first.is_object() && first.value("event", Json()) == "sweep");
}

bool is_own(const Path& path, bool (*accepts)(const std::string&)) {
  const PathKind kind = kind_of(path);
  return kind == PathKind::nothing || (kind == PathKind::file && accepts(read_file(path)));
}

}  // namespace

std::optional<RunResult> read_result(const Path& run, const Config& config) {
  const auto& [split, metric] = config.train.best;
  if (!is_there(run / kMetricsFile)) return {};
  RunResult result;
  struct Tested {
    std::optional<RunResult::Evaluated> val, test;
  };
  std::map<int64_t, Tested> evaluations;  // by step
  std::map<int64_t, double> losses;       // of training, by epoch
  bool ended = false;
  each_line(run / kMetricsFile, [&](std::string_view line, bool) {
    const Json record = record_in(line);
    if (!record.is_object() || !record.value("event", Json()).is_string()) return;
    const std::string event = record["event"], reason = record.value("reason", Json("")).dump();
    ended = event == "end" && (reason == "\"finished\"" || reason == "\"stopped early\"");
    if (event == "start") result.parameters = count(record, "parameters");
    if (event == "epoch") losses[count(record, "epoch")] = number(record, "loss");
    if (event != "eval") return;
    const RunResult::Evaluated now{number(record, "accuracy"), number(record, "loss"), count(record, "epoch")};
    Tested& at = evaluations[count(record, "step")];
    (record.value("split", Json()) == "val" ? at.val : at.test) = now;
    result.end_epoch = std::max(result.end_epoch, now.epoch);
  });
  if (!ended) return {};
  for (const auto& [step, at] : evaluations) {
    const bool by_val = at.val && (split != BestSplit::test || !at.test);
    const RunResult::Evaluated& now = by_val ? *at.val : *at.test;
    const auto figure = [&](const RunResult::Evaluated& e) {
      return Judged::Figures{e.loss, e.accuracy}.value(metric);
    };
    const bool better_now =
        !result.best || std::isnan(figure(*result.best)) || replaces(metric, figure(now), figure(*result.best));
    if (better_now) result.best = now;
    if (!better_now && (split != BestSplit::last || !std::isfinite(now.loss))) continue;
    result.kept = now;
    result.test = at.test;
    result.validated = by_val;
  }
  if (result.best && losses.contains(result.best->epoch)) result.best_train_loss = losses[result.best->epoch];
  return result;
}

std::vector<SweepGroup> groups_of(const std::vector<SweepOutcome>& outcomes) {
  std::vector<SweepGroup> groups;
  for (const SweepOutcome& outcome : outcomes) {
    const std::string text = outcome.run.text(/*with_seed=*/false);
    auto group = std::ranges::find(groups, text, &SweepGroup::text);
    if (group == groups.end()) group = groups.insert(groups.end(), SweepGroup{text, {}, {}});
    group->all.push_back(&outcome);
    if (outcome.result) group->ended.push_back(&outcome);
  }
  for (SweepGroup& group : groups)
    if (group.text.empty()) group.text = kAsConfigured;
  return groups;
}

MeanAndDeviation mean_and_deviation(const std::vector<double>& numbers) {
  const auto n = static_cast<double>(numbers.size());
  MeanAndDeviation result{.mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / n};
  double squares = 0;
  for (const double number : numbers) squares += (number - result.mean) * (number - result.mean);
  if (n > 1) result.deviation = std::sqrt(squares / (n - 1));
  return result;
}

size_t best_of(const std::vector<RunScores>& all) {
  constexpr double kSame = 1e-9;  // sums in another order differ by less, shares of images by more
  struct Means {
    double accuracy, loss;
  };
  const auto means = [](const RunScores& s) {
    const double loss = mean_and_deviation(s.losses).mean;
    return Means{mean_and_deviation(s.accuracies).mean,
                 std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss};
  };
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    const Means now = means(all[i]), before = means(all[best]);
    const double lead = now.accuracy - before.accuracy;
    if (lead > kSame || (lead >= -kSame && now.loss < before.loss)) best = i;
  }
  return best;
}

std::string best_by_validation(const std::vector<SweepOutcome>& outcomes) {
  const std::vector<SweepGroup> groups = groups_of(outcomes);
  const bool all = std::ranges::all_of(outcomes, [](const SweepOutcome& o) { return o.result && o.result->validated; });
  const auto same_data = [&](const SweepOutcome& o) {
    const auto &data = o.config.data, &first = outcomes.front().config.data;
    return data.dataset == first.dataset && data.path == first.path && data.labels == first.labels;
  };
  if (!all || groups.size() < 2 || !std::ranges::all_of(outcomes, same_data)) return "";
  std::vector<RunScores> scores;
  for (const SweepGroup& group : groups)
    scores.push_back({group.numbers([](const SweepOutcome& o) { return o.result->kept.accuracy; }),
                      group.numbers([](const SweepOutcome& o) { return o.result->kept.loss; })});
  const SweepGroup& best = groups[best_of(scores)];
  return str("the best by its validation images: ", best.text, ", ",
             percent(mean_and_deviation(best.accuracies()).mean));
}

std::string table_text(const std::vector<SweepOutcome>& outcomes) {
  const bool validated =
      std::ranges::any_of(outcomes, [](const SweepOutcome& o) { return o.result && o.result->validated; });
  std::vector<std::vector<std::string>> rows = {
      {"settings", "runs", validated ? "validation %" : "accuracy %", "loss", "seconds"}};
  if (validated) rows.front().insert(rows.front().begin() + 3, "test %");
  for (const SweepGroup& group : groups_of(outcomes)) {
    rows.push_back({escaped_for_markdown(group.text), str(group.ended.size(), " of ", group.all.size()),
                    spread_text(group.accuracies(), 2, 100),
                    spread_text(group.numbers([](const SweepOutcome& o) { return o.result->kept.loss; }), 4),
                    spread_text(group.numbers([](const SweepOutcome& o) { return o.seconds; }), 1)});
    std::vector<double> tests;
    for (const SweepOutcome* o : group.ended)
      if (o->result->test) tests.push_back(o->result->test->accuracy);
    if (validated) rows.back().insert(rows.back().begin() + 3, spread_text(tests, 2, 100));
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c)
      text += "| " + rows[r][c] + std::string(widths[c] - width(rows[r][c]) + 1, ' ');
    text += "|\n";
    if (r > 0) continue;
    for (const size_t w : widths) text += "|" + std::string(w + 2, '-');
    text += "|\n";
  }
  return text;
}

std::string results_text(const std::vector<SweepOutcome>& outcomes) {
  std::string text;
  for (const SweepOutcome& o : outcomes) {
    if (!o.result || !o.result->best) continue;
    const RunResult& result = *o.result;
    const auto key = [&](const char* name, const char* absent = "0") { return text_of_key(o.config, name, absent); };
    const std::string settings = o.run.text(/*with_seed=*/false);
    const std::string_view instead = optim::overrides_lr(o.config.scheduler);  // the rate that is trained with
    const std::string lr = instead.empty() ? "optimizer.params.lr" : str("scheduler.params.", instead);
    const std::pair<const char*, std::string> lines[] = {
        {"name", o.run.folder()},
        {"notes", "cifar-train sweep"},
        {"arch", o.config.model.name},
        {"params", settings.empty() ? kAsConfigured : settings},
        {"best_val_acc", fmt::format("{:.2f}", 100 * result.best->accuracy)},
        {"best_train_loss", loss_text(result.best_train_loss)},
        {"best_val_loss", loss_text(result.best->loss)},
        {"end_epoch", str(result.end_epoch)},
        {"train_seconds", fmt::format("{:.2f}", o.seconds)},
        {"num_params", str(result.parameters)},
        {"git_hash", std::string(commit())},
        {"timestamp", o.finished},
        {"seed", o.run.seed},
        {"lr", key(lr.c_str())},
        {"weight_decay", key("optimizer.params.weight_decay")},
        {"dropout", key("model.dropout")},
        {"max_epochs", key("train.epochs")},
        {"optimizer", key("optimizer.type", "none")},
        {"scheduler", key("scheduler.type", "none")},
    };
    text += "Experiment:\n";
    for (const auto& [name, value] : lines) text += fmt::format("\t{:>16}: ", name) + value + "\n";
  }
  return text;
}

std::string sealed_sweep_file(const std::string& text, const char* open, const char* close) {
  return str(open, kSeal, crc_text(crc32c(text)), close, "\n", text);
}

bool has_sweep_table(const Path& folder) {
  const Path table = folder / kSweepTable;
  return kind_of(table) == PathKind::file && is_sealed(read_file(table));
}

bool is_own_sweep_file(const Path& out, std::string_view name) {
  return is_own(out / name, name == kSweepRecords ? are_records : is_sealed);
}

void require_own_sweep_files(const Path& out) {
  if (holds_run(out))
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " holds a run: give the sweep another --output");
  for (const std::string_view name : {kSweepRecords, kSweepTable, kSweepResults, kSweepPlot})
    if (!is_own_sweep_file(out, name))
      fail(ExitCode::usage, in_quotes((out / name).native()),
           ": this program did not write this file, or it was edited since; a sweep would replace it: move it away, or "
           "give another --output");
}

}  // namespace ct
