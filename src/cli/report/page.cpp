#include "cli/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/report/comparison.h"
#include "cli/report/evaluation_section.h"
#include "cli/report/figures.h"
#include "cli/report/page_style.h"
#include "cli/report/tables.h"
#include "metrics/console.h"
#include "metrics/log_format.h"

namespace ct::report {
namespace {

constexpr size_t kMostKeyColumns = 6;  // differing keys in the table of runs
constexpr size_t kMostEvaluations = 200, kMostMissing = 50;

constexpr const char* kStar = "\u2605 ";

std::string dash_or(std::string text) { return text.empty() ? "-" : text; }
std::string count_or_dash(int64_t count) { return count < 0 ? "-" : count_text(count); }
std::string share_text(double share) { return std::isnan(share) ? "-" : percent(share); }
std::string figure_or_dash(double number) { return std::isnan(number) ? "-" : number_text(number); }
std::string bytes_or_dash(double bytes) {
  return bytes >= 0 && bytes < 1e18 ? human_bytes(static_cast<uint64_t>(bytes)) : "-";
}

int64_t last_step_of(const RunRecords& r) {
  int64_t last = -1;
  if (!r.steps.empty()) last = r.steps.back().step;
  if (!r.evals.empty()) last = std::max(last, r.evals.back().step);
  return std::max(last, count_in(r.end, "step"));
}

std::string split_word(EvaluatedSplit split) {
  return split == EvaluatedSplit::val ? "validation" : std::string(word_of(split));
}

const Tree& child(const Tree& object, const char* key) {
  static const Tree kNothing;
  const auto found = object.find(key);
  return found != object.end() ? *found : kNothing;
}

// ---- sections

/// A part of the page, and the list of contents that names it.
struct Contents {
  Markup body;
  std::vector<std::pair<std::string, std::string>> sections = {};  // id and title
};

class Section {
 public:
  Section(Contents& page, std::string_view id, std::string_view title) : out_(page.body) {
    const std::string heading = std::string(id) + "-heading";
    out_.open("section", {{"id", id}, {"aria-labelledby", heading}});
    out_.element("h2", title, {{"id", heading}});
    page.sections.emplace_back(id, title);
  }
  ~Section() { out_.close("section"); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  Markup& out_;
};

void write_missing(Contents& page, const Report& report) {
  std::vector<std::string> lines = report.missing;
  for (const RunParts& run : report.runs)
    for (const std::string& line : run.missing) lines.push_back(report.runs.size() > 1 ? run.name + ": " + line : line);
  if (lines.empty()) return;
  const Section section(page, "missing", "What is missing");
  Markup& out = page.body;
  out.element("p", "These parts could not be read; the rest of the report does without them.");
  out.open("ul");
  for (size_t i = 0; i < std::min(lines.size(), kMostMissing); ++i) out.element("li", shortened(lines[i], 400));
  if (lines.size() > kMostMissing) out.element("li", str("and ", lines.size() - kMostMissing, " more"));
  out.close("ul");
}

void write_summary_of_one(Markup& out, const RunParts& run) {
  const RunRecords& r = run.records;
  std::vector<std::pair<std::string, std::string>> pairs = {{"state", state_of(run)}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "-") pairs.emplace_back(name, value);
  };
  add("model", text_in(r.start, "model"));
  add("data set", text_in(r.start, "dataset"));
  add("training images", count_or_dash(count_in(r.start, "train_images")));
  add("parameters", count_or_dash(count_in(r.start, "parameters")));
  add("optimizer steps", count_or_dash(last_step_of(r)));
  if (!r.epochs.empty()) add("epochs", count_or_dash(r.epochs.back().epoch));
  if (const EvalRecord* const best = best_evaluation(r)) {
    add("best.bin", str(share_text(best->accuracy), " of the ", split_word(best->split), " images, loss ",
                        figure_or_dash(best->loss), ", step ", count_text(best->step)));
    if (const EvalRecord* const test = newest_evaluation(r, EvaluatedSplit::test); test && test != best)
      add("test",
          str(share_text(test->accuracy), ", loss ", figure_or_dash(test->loss), ", step ", count_text(test->step)));
  }
  if (!r.epochs.empty()) add("training loss of the last epoch", figure_or_dash(r.epochs.back().loss));
  if (const double seconds = number_in(r.end, "seconds"); seconds >= 0) add("time", duration(std::min(seconds, 1e12)));
  if (const double rate = number_in(r.end, "samples_per_sec"); rate >= 0)
    add("throughput", number_text(rate) + " images/s");
  if (const int64_t skipped = count_in(r.end, "skipped"); skipped > 0) add("skipped steps", count_text(skipped));
  if (const int64_t replaced = count_in(r.end, "replaced_samples"); replaced > 0)
    add("replaced samples", count_text(replaced));
  add("weights_sha256", text_in(r.end, "weights_sha256"));
  write_pairs(out, "Results and state", pairs);
}

void write_table_of_settings(Markup& out, std::span<const RunParts> runs) {
  const std::vector<Settings> all = settings_of(runs);
  if (all.size() < 2 || all.size() == runs.size()) return;  // the table of runs says the same
  const std::optional<Best> best = best_settings(runs, all);
  Table table(out, "Settings, with the mean of the best accuracies",
              {{"settings"}, {"runs", Column::number}, {"accuracy", Column::number}, {"deviation", Column::number}});
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_best = best && best->index == i;
    table.row((is_best ? kStar : "") + all[i].text + (is_best ? " (best)" : ""), is_best ? "best" : "");
    table.cell(str(all[i].scores.size(), " of ", all[i].runs.size()));
    table.cell(all[i].scores.empty() ? "-" : percent(all[i].mean));
    table.cell(all[i].scores.size() < 2 ? "-" : percent(all[i].deviation));
  }
}

std::string chosen_by(EvaluatedSplit split) {
  return split == EvaluatedSplit::val
             ? "The best row has the highest accuracy on the validation images."
             : str("The best row has the highest accuracy on the ", split_word(split),
                   " images, which makes its figure optimistic: hold out images (data.validation) to choose by them.");
}

void write_table_of_runs(Markup& out, std::span<const RunParts> runs, bool is_sweep) {
  std::vector<std::string> keys = differing_keys(runs);
  const size_t all_keys = keys.size();
  keys.resize(std::min(keys.size(), kMostKeyColumns));
  std::vector<Heading> headings = {{"run"}, {"line"}};
  for (const char* name : {"best accuracy", "its loss", "test accuracy"}) headings.push_back({name, Column::number});
  for (const std::string& key : keys) headings.push_back({key});
  for (const char* name : {"steps", "seconds", "images/s"}) headings.push_back({name, Column::number});
  headings.push_back({"state"});
  const std::optional<Best> best = best_run(runs);
  {
    Table table(out, "Runs", headings);
    for (size_t i = 0; i < runs.size(); ++i) {
      const RunParts& run = runs[i];
      const EvalRecord* const figures = best_evaluation(run.records);
      const EvalRecord* const test = newest_evaluation(run.records, EvaluatedSplit::test);
      const bool is_best = best && best->index == i;
      const std::string name = is_sweep ? "" : " " + run.name;  // which the keys' columns say
      table.row(str(is_best ? kStar : "", i + 1, name, is_best ? " (best)" : ""), is_best ? "best" : "");
      table.sample(i);
      table.cell(figures ? share_text(figures->accuracy) + " " + std::string(word_of(figures->split)) : "-");
      table.cell(figures ? figure_or_dash(figures->loss) : "-");
      table.cell(test ? share_text(test->accuracy) : "-");
      for (const std::string& key : keys) table.cell(dash_or(run.value(key)));
      table.cell(count_or_dash(last_step_of(run.records)));
      table.cell(figure_or_dash(number_in(run.records.end, "seconds")));
      table.cell(figure_or_dash(number_in(run.records.end, "samples_per_sec")));
      table.cell(run.reason().empty() ? "not ended" : run.reason());
    }
  }
  if (best) out.element("p", chosen_by(best->by));
  if (all_keys > keys.size())
    out.element("p", str("The runs differ in ", all_keys, " keys, of which the first ", keys.size(),
                         " are shown here: the configuration has all."));
}

void write_summary(Contents& page, const Report& report) {
  const bool one = report.runs.size() == 1;
  const Section section(page, "summary", one ? "Summary" : "Runs");
  if (one) return write_summary_of_one(page.body, report.runs[0]);
  write_table_of_settings(page.body, report.runs);
  write_table_of_runs(page.body, report.runs, report.is_sweep);
}

void write_evaluations(Markup& out, const RunRecords& r, std::string_view name) {
  if (r.evals.empty()) return;
  out.open("details");
  out.element("summary", str("All evaluations", name.empty() ? "" : " of ", shortened(name)));
  const size_t shown = std::min(r.evals.size(), kMostEvaluations), first = r.evals.size() - shown;
  {
    Table table(
        out, shown < r.evals.size() ? str("The last ", shown, " of ", r.evals.size(), " evaluations") : "Evaluations",
        {{"step"},
         {"epoch", Column::number},
         {"split"},
         {"images", Column::number},
         {"loss", Column::number},
         {"accuracy", Column::number}});
    for (size_t i = first; i < r.evals.size(); ++i) {
      const EvalRecord& e = r.evals[i];
      table.row_of(count_text(e.step), {count_text(e.epoch), word_of(e.split), count_text(e.images),
                                        figure_or_dash(e.loss), share_text(e.accuracy)});
    }
  }
  out.close("details");
}

void write_figure(Markup& out, const Figure& figure, std::string_view caption) {
  out.open("figure");
  draw(out, figure);
  out.element("figcaption", caption);
  out.close("figure");
}

void write_curves(Contents& page, const Report& report) {
  const Figure progress = progress_figure(report.runs), pace = pace_figure(report.runs);
  if (!has_curves(progress) && !has_curves(pace)) return;
  const Section section(page, "curves", "Curves");
  Markup& out = page.body;
  out.open("div", {{"class", "figures"}});
  const bool one = report.runs.size() == 1;
  if (has_curves(progress))
    write_figure(out, progress,
                 one ? "train: the loss of the recorded steps, smoothed, and faint as it was; val, test: evaluations "
                       "of these images."
                     : "A name at the end of a curve is the number of its run in the table of runs.");
  if (has_curves(pace))
    write_figure(out, pace,
                 "Throughput and waiting are means since the record before; the norm is that of the recorded step.");
  out.close("div");
  for (const RunParts& run : report.runs) write_evaluations(out, run.records, one ? "" : run.name);
}

void write_configuration(Contents& page, const Report& report) {
  const std::span<const RunParts> runs = report.runs;
  if (std::ranges::all_of(runs, [](const RunParts& run) { return run.config.empty(); })) return;
  const Section section(page, "configuration", "Configuration");
  Markup& out = page.body;
  if (runs.size() == 1) {
    const bool recorded = std::ranges::any_of(runs[0].config, [](const ConfigKey& key) { return !key.origin.empty(); });
    std::vector<Heading> headings = {{"key"}, {"value"}};
    if (recorded) headings.push_back({"origin"});
    Table table(out, "The effective configuration", headings);
    for (const ConfigKey& key : runs[0].config) {
      table.row(key.key, key.origin.empty() || key.origin == "default" ? "" : "given");
      table.cell(key.value);
      if (recorded) table.cell(key.origin);
    }
    return;
  }
  const std::vector<std::string> differing = differing_keys(runs);
  std::vector<std::string> keys;
  for (const RunParts& run : runs)
    for (const ConfigKey& key : run.config)
      if (std::ranges::find(keys, key.key) == keys.end()) keys.push_back(key.key);
  std::vector<Heading> headings = {{"key"}};
  for (size_t i = 0; i < runs.size(); ++i) headings.push_back({str(i + 1, " ", shortened(runs[i].name, 40))});
  const auto write = [&](std::string_view caption, const std::vector<std::string>& rows) {
    Table table(out, caption, headings);
    for (const std::string& key : rows) {
      const bool differs = std::ranges::find(differing, key) != differing.end();
      table.row((differs ? "\u2260 " : "") + key, differs ? "differs" : "");
      for (const RunParts& run : runs) table.cell(dash_or(run.value(key)));
    }
  };
  if (differing.empty())
    out.element("p", "All runs have the same configuration.");
  else
    write("Keys that differ (\u2260)", differing);
  out.open("details");
  out.element("summary", str("All ", keys.size(), " keys"));
  write("All keys", keys);
  out.close("details");
}

std::vector<std::pair<std::string, std::string>> machine_of(const RunParts& run) {
  const RunRecords& r = run.records;
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "-") pairs.emplace_back(name, value);
  };
  add("program", text_in(r.start, "version").empty() ? "" : "cifar-train " + text_in(r.start, "version"));
  add("host", text_in(r.start, "host"));
  add("device", text_in(r.start, "device"));
  add("connection of ranks", text_in(r.start, "collectives"));
  add("ranks", count_or_dash(count_in(r.start, "ranks")));
  add("ZeRO stage", count_or_dash(count_in(r.start, "zero_stage")));
  add("compute type", text_in(r.start, "compute"));
  if (const int64_t batch = count_in(r.start, "train_batch_size"); batch >= 0)
    add("batch", str(count_text(batch), " = ", count_or_dash(count_in(r.start, "micro_batch_size")), " x ",
                     count_or_dash(count_in(r.start, "gradient_accumulation_steps")), " micro-steps x ",
                     count_or_dash(count_in(r.start, "ranks")), " ranks"));
  if (r.starts > 1) add("starts", count_text(r.starts));
  const Tree& peak = child(r.end, "peak_bytes");
  if (peak.is_object()) {
    add("memory of a rank, as planned", bytes_or_dash(number_in(peak, "total")));
    add("memory of a rank's process, at most", bytes_or_dash(number_in(peak, "process")));
  }
  const Tree& traffic = child(r.end, "traffic");
  if (traffic.is_object()) add("traffic of a step and rank", bytes_or_dash(number_in(traffic, "bytes")));
  return pairs;
}

void write_checkpoints(Markup& out, const RunParts& run) {
  Table table(out, "Checkpoints", {{"step"}, {"size", Column::number}, {"files", Column::number}, {"state"}});
  for (const SavedStep& saved : run.checkpoints)
    table.row_of(
        count_text(saved.step),
        {saved.readable ? human_bytes(saved.bytes) : "-", str(saved.files),
         !saved.readable         ? "its manifest is damaged"
         : saved.not_finite == 0 ? "all tensors are finite"
                                 : str(counted(static_cast<int64_t>(saved.not_finite), "tensor"), " not finite")});
}

/// What is of a run alone.
void write_machine_and_checkpoints(Markup& out, const RunParts& run) {
  if (const auto pairs = machine_of(run); !pairs.empty()) write_pairs(out, "Machine", pairs);
  if (!run.checkpoints.empty()) write_checkpoints(out, run);
}

/// Writes a part of each run: of several, in a fold of its own.
template <class Write>
void for_each_run(Markup& out, std::span<const RunParts> runs, const Write& write) {
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs.size() > 1) {
      out.open("details");
      out.element("summary", str(i + 1, " ", shortened(runs[i].name)));
    }
    write(runs[i], i);
    if (runs.size() > 1) out.close("details");
  }
}

void write_evaluations_of_ends(Contents& page, const Report& report) {
  if (std::ranges::none_of(report.runs, has_evaluation)) return;
  const Section section(page, "evaluation", "Evaluation");
  for_each_run(page.body, report.runs, [&](const RunParts& run, size_t i) {
    if (has_evaluation(run)) return write_evaluation_of(page.body, run, i + 1);
    page.body.element("p", "This run has no evaluation yet.");
  });
}

void write_machines(Contents& page, const Report& report) {
  const Section section(page, "machine", "Machine and checkpoints");
  for_each_run(page.body, report.runs,
               [&](const RunParts& run, size_t) { write_machine_and_checkpoints(page.body, run); });
}

void write_head(Markup& out, const Report& report) {
  out.verbatim(kPageBeginning);
  out.verbatim(str(version(), "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                   "<meta name=\"color-scheme\" content=\"light dark\">\n",
                   // what slipped through escaping could neither run nor fetch anything
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ",
                   "style-src 'unsafe-inline'; img-src data:\">\n"));
  out.element("title", shortened(report.title) + " - cifar-train report");
  out.open("style");
  out.verbatim(chart_style());
  out.verbatim(kPageStyle);
  out.verbatim(kEvaluationStyle);
  out.close("style");
  out.verbatim("</head>\n<body>\n");
}

}  // namespace

const std::string_view kPageBeginning =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" "
    "content=\"cifar-train ";

std::string state_of(const RunParts& run) {
  if (const std::string reason = run.reason(); !reason.empty())
    return reason == "stopped" ? "stopped on request; it can be continued" : reason;
  if (run.records.ended) return "ended";
  return str("goes on, or was interrupted",
             run.written > 0 ? ": the newest record is of " + local_time(run.written) : "");
}

std::string page_text(const Report& report) {
  Contents page;
  write_missing(page, report);
  write_summary(page, report);
  write_curves(page, report);
  write_evaluations_of_ends(page, report);
  write_configuration(page, report);
  write_machines(page, report);

  Markup out;
  write_head(out, report);
  out.element("a", "Skip to the results", {{"class", "skip"}, {"href", "#results"}});
  out.open("header");
  out.element("h1", report.title);
  out.element("p", str(report.is_sweep ? "A sweep of " : "", counted(std::ssize(report.runs), "run"),
                       ", written by cifar-train ", version(), " on ", local_time(std::time(nullptr))));
  out.open("nav", {{"aria-label", "Contents"}});
  out.open("ul");
  for (const auto& [id, title] : page.sections) {
    out.open("li");
    out.element("a", title, {{"href", "#" + id}});
    out.close("li");
  }
  out.close("ul");
  out.close("nav");
  out.close("header");
  out.open("main", {{"id", "results"}});
  out.verbatim(page.body.take());
  out.close("main");
  out.verbatim("</body>\n</html>\n");
  return out.take();
}

}  // namespace ct::report
