#include "cli/report/page.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/report/comparison.h"
#include "cli/report/evaluation_section.h"
#include "cli/report/figures.h"
#include "cli/report/runs_section.h"
#include "cli/report/style.h"
#include "cli/report/tables.h"
#include "cli/report/texts.h"

namespace ct::report {
namespace {

constexpr size_t kMostEvaluations = 200, kMostMissing = 50;

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
  out.element("p",
              "These parts are gone, damaged or not as a run left them; the rest of the report does without them.");
  out.open("ul");
  for (size_t i = 0; i < std::min(lines.size(), kMostMissing); ++i) out.element("li", shortened(lines[i], 400));
  if (lines.size() > kMostMissing) out.element("li", str("and ", lines.size() - kMostMissing, " more"));
  out.close("ul");
}

void write_summary(Contents& page, const Report& report) {
  const bool one = report.runs.size() == 1;
  const Section section(page, "summary", one ? "Summary" : "Runs");
  if (one) return write_results(page.body, report.runs[0]);
  write_comparison(page.body, report.runs, report.sweep);
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
    write_figure(
        out, progress,
        one ? "train: the loss of the recorded steps, of 30 and more smoothed, and faint as it was; val, test: "
              "evaluations of these images."
            : "A name at the end of a curve is the number of its run in the table of runs.");
  if (has_curves(pace))
    write_figure(out, pace,
                 "Throughput and waiting are means since the record before; the norm is that of the recorded step.");
  out.close("div");
  for (const RunParts& run : report.runs) write_evaluations(out, run.records, one ? "" : run.name);
}

/// "default.yaml:12" of "/home/configs/default.yaml:12:17", whose file is noted; what no file says, as it is.
std::string brief_origin(const std::string& origin, std::set<std::string>& files) {
  const size_t column = origin.rfind(':'), line = origin.substr(0, column).rfind(':');
  if (line == origin.npos || origin.starts_with("--")) return origin;
  const std::string file = origin.substr(0, line);
  files.insert(file);
  return Path(file).filename().native() + origin.substr(line, column - line);
}

void write_configuration_of(Markup& out, const RunParts& run) {
  const bool recorded = std::ranges::any_of(run.config, [](const ConfigKey& key) { return !key.origin.empty(); });
  std::vector<Heading> headings = {{"key"}, {"value"}};
  if (recorded) headings.push_back({"origin"});
  std::set<std::string> files;
  {
    Table table(out, str("The effective configuration", recorded ? "; bold: given by options" : ""), headings);
    for (const ConfigKey& key : run.config) {
      table.row(key.key, key.origin.starts_with("--") ? "given" : "");
      table.cell(key.value);
      if (recorded) table.cell(brief_origin(key.origin, files));
    }
  }
  std::string names;
  for (const std::string& file : files) names += (names.empty() ? "Read from " : ", ") + file;
  if (!files.empty()) out.element("p", shortened(names, 400));
}

void write_configuration(Contents& page, const Report& report) {
  const std::span<const RunParts> runs = report.runs;
  if (std::ranges::all_of(runs, [](const RunParts& run) { return run.config.empty(); })) return;
  const Section section(page, "configuration", "Configuration");
  Markup& out = page.body;
  if (runs.size() == 1) return write_configuration_of(out, runs[0]);
  const std::vector<std::string> differing = differing_keys(runs);
  std::vector<std::string> keys;
  for (const RunParts& run : runs)
    for (const ConfigKey& key : run.config)
      if (std::ranges::find(keys, key.key) == keys.end()) keys.push_back(key.key);
  std::vector<Heading> headings = {{"key"}};
  for (size_t i = 0; i < runs.size(); ++i) headings.push_back({str(i + 1, ": ", runs[i].name)});
  const auto write = [&](std::string_view caption, const std::vector<std::string>& rows) {
    Table table(out, caption, headings);
    for (const std::string& key : rows) {
      const bool differs = std::ranges::find(differing, key) != differing.end();
      table.row((differs ? "\u2260\u00a0" : "") + key, differs ? "differs" : "");
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
  if (has_failed(run)) add("error", run.failure);
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
    add("memory of a process, at most", bytes_or_dash(number_in(peak, "process")));
  }
  const Tree& traffic = child(r.end, "traffic");
  if (traffic.is_object()) add("traffic of a step and rank", bytes_or_dash(number_in(traffic, "bytes")));
  return pairs;
}

void write_checkpoints(Markup& out, const RunParts& run) {
  Table table(out, "Checkpoints, by their manifests: cifar-train ckpt verify compares the contents",
              {{"step"}, {"size", Column::number}, {"files", Column::number}, {"state"}});
  for (const SavedStep& saved : run.checkpoints)
    table.row_of(
        count_text(saved.step),
        {saved.bytes > 0 ? human_bytes(saved.bytes) : "-", str(saved.files),
         saved.damaged           ? "damaged"
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
      out.element("summary", str(i + 1, ": ", shortened(runs[i].name)));
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

/// "1 run"; "A sweep of 6 runs, of which 3 have begun, 1 has ended, 1 has failed"
std::string what_it_is_of(const Report& report) {
  if (!report.sweep) return counted(std::ssize(report.runs), "run");
  const size_t planned = std::max({report.sweep->planned, report.sweep->begun, report.runs.size()});
  size_t ended = 0, failed = 0;
  for (const RunParts& run : report.runs) {
    failed += has_failed(run);
    ended += run.records.ended && run.reason() != "stopped" && !has_failed(run);
  }
  const std::string text = "A sweep of " + counted(static_cast<int64_t>(planned), "run");
  if (ended == planned) return text;
  const auto have = [](size_t count, const char* what) { return str(count, count == 1 ? " has " : " have ", what); };
  return str(text, ", of which ", have(report.sweep->begun, "begun"), ", ", have(ended, "ended"),
             failed > 0 ? ", " + have(failed, "failed") : "");
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
  out.verbatim(page_style());
  out.verbatim(kEvaluationStyle);
  out.close("style");
  out.verbatim("</head>\n<body>\n");
}

}  // namespace

const std::string_view kPageBeginning =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" "
    "content=\"cifar-train ";

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
  out.element(
      "p", str(what_it_is_of(report), ", written by cifar-train ", version(), " on ", local_time(std::time(nullptr))));
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
