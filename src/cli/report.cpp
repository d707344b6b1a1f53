// cifar-train report: the curves, figures and settings of runs, as a page, a picture, a table, or text for a terminal.
// It reads run folders only, and writes nothing but the report.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/cores.h"
#include "base/error.h"
#include "base/in_order.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "cli/csv_table.h"
#include "cli/report/figures.h"
#include "cli/report/page.h"
#include "cli/verbs.h"

namespace ct {
namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out;
  bool text = false, csv = false, svg = false;
};

/// Where a run lies, and its name in the report.
struct NamedRun {
  Path folder;
  std::string name;
};

/// The run in a folder, or all runs of a sweep. Throws Error(usage) if there is none.
std::vector<NamedRun> runs_in(const std::string& word, bool* is_sweep) {
  const Path folder = word;
  if (const PathKind kind = kind_of(folder); kind != PathKind::folder)
    fail(ExitCode::usage, in_quotes(word), kind == PathKind::nothing ? ": there is no such folder" : " is no folder",
         ": give the folder of a run (its --output) or of a sweep");
  if (const auto names = report::runs_of_sweep(folder)) {
    *is_sweep = true;
    std::vector<NamedRun> runs;
    for (const std::string& name : *names) runs.push_back({folder / name, name});
    if (!runs.empty()) return runs;
    fail(ExitCode::usage, in_quotes(word), ": none of the sweep's runs has begun: try again later");
  }
  if (report::may_be_run(folder)) return {{folder, word}};
  fail(ExitCode::usage, in_quotes(word),
       " holds no run: give the folder of a run (its --output), with its metrics.jsonl, or of a sweep");
}

/// What is known of the runs; several are read at once. Throws Error(usage) if nothing is a run; what else cannot be
/// read is named in one warning.
report::Report read_report(const std::vector<std::string>& words) {
  report::Report report;
  std::vector<NamedRun> named;
  for (const std::string& word : words) {
    try {
      for (NamedRun& run : runs_in(word, &report.is_sweep)) {
        if (words.size() > 1 && run.name != word) run.name = (Path(word) / run.name).native();
        named.push_back(std::move(run));
      }
    } catch (const Error& error) {
      if (words.size() == 1) throw;
      report.missing.emplace_back(error.what());
    }
  }
  report.is_sweep = report.is_sweep && words.size() == 1;
  const auto read = [&](int64_t i) {
    const NamedRun& run = named[static_cast<size_t>(i)];
    return report::read_run(run.folder, run.name);
  };
  const auto take = [&](int64_t, report::RunParts run) {
    if (is_run(run)) return report.runs.push_back(std::move(run));
    report.missing.push_back(in_quotes(run.folder.native()) + " holds no run" +
                             (run.missing.empty() ? "" : ", but damaged files: " + run.missing.front()));
  };
  in_order(std::ssize(named), std::min<int>(available_cores(), static_cast<int>(named.size())), read, take);
  if (report.runs.empty())
    fail(ExitCode::usage, report.missing.front(),
         report.missing.size() > 1 ? str("; nor does any of the ", report.missing.size() - 1, " others") : "",
         ": give the folder of a run, with its metrics.jsonl");
  report.title = words.size() == 1 ? words.front() : str(report.runs.size(), " runs");
  return report;
}

/// Which parts are missing, on one line.
std::string missing_text(const report::Report& report) {
  std::vector<std::string> lines = report.missing;
  for (const report::RunParts& run : report.runs)
    for (const std::string& line : run.missing) lines.push_back(in_quotes(run.name) + ": " + line);
  if (lines.empty()) return "";
  return lines.front() + (lines.size() > 1 ? str("; and ", lines.size() - 1, " more, which the page lists") : "") +
         "; the report does without";
}

/// A file of the report's own, which nothing but such a file is replaced by.
struct ReportFile {
  Path path;
  std::string_view beginning;
};

}  // namespace

int verb_report(const Words& words) {
  CLI::App app("Draws runs: curves, results, settings and machine, as one HTML file that needs nothing else.",
               "cifar-train report");
  ReportFlags f;
  app.add_option("RUN", f.runs, "folders of runs, also of some that go on, or of a sweep")->required();
  app.add_option("--out", f.out, "the file to write (default: RUN/report.html; report.html for several)");
  auto* const text = app.add_flag("--text", f.text, "draw the curves in the terminal");
  auto* const csv = app.add_flag("--csv", f.csv, "the curves as a table, on standard output or in --out");
  auto* const svg = app.add_flag("--svg", f.svg, "the chart alone, on standard output or in --out");
  text->excludes(csv)->excludes(svg)->excludes("--out");
  csv->excludes(svg);
  if (!parse(app, words)) return 0;

  const report::Report report = read_report(f.runs);
  warn(missing_text(report));
  const Path out = !f.out.empty()       ? Path(f.out)
                   : f.runs.size() == 1 ? Path(f.runs.front()) / "report.html"
                                        : "report.html";
  require_replaceable_table(out, report::kPageBeginning, "--out");
  FileSystem files;
  write_file_atomic(files, out, page_text(report));
  std::printf("%s\n", printable(out.native()).c_str());
  return 0;
}

}  // namespace ct
