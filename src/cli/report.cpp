// cifar-train report: the curves, figures and settings of runs, as a page, a picture, a table, or text for a terminal.
// It reads run folders only, and writes nothing but the report.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/cores.h"
#include "base/error.h"
#include "base/in_order.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/csv_table.h"
#include "cli/report/comparison.h"
#include "cli/report/export_curves.h"
#include "cli/report/figures.h"
#include "cli/report/page.h"
#include "cli/report/text_chart.h"
#include "cli/report/texts.h"
#include "cli/verbs.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

constexpr const char* kPage = "report.html";

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out;
  bool text = false, csv = false, svg = false;
};

enum class Form : uint8_t { page, text, table, chart };

/// The form by the options, otherwise by the ending of --out. Error(usage) if they contradict each other, or the ending
/// is of no form.
Form form_of(const ReportFlags& f) {
  constexpr std::pair<std::string_view, Form> kEndings[] = {
      {".html", Form::page}, {".htm", Form::page}, {".csv", Form::table}, {".svg", Form::chart}};
  const std::string extension = lower_case(Path(f.out).extension().string());
  const auto* const by_name = std::ranges::find(kEndings, extension, &std::pair<std::string_view, Form>::first);
  const bool is_known = by_name != std::end(kEndings);
  const Form given = f.text ? Form::text : f.csv ? Form::table : f.svg ? Form::chart : Form::page;
  if (given == Form::page) {
    if (is_known) return by_name->second;
    if (!extension.empty())
      fail(ExitCode::usage, "--out ", in_quotes(f.out), ": a report is a page, a table or a picture: give a name such ",
           "as report.html, report.csv or report.svg");
  } else if (is_known && by_name->second != given) {
    const std::string own = f.csv ? "csv" : "svg";
    fail(ExitCode::usage, "--out ", in_quotes(f.out), " contradicts --", own, ": give a name such as report.", own,
         ", or leave --", own, " out");
  }
  return given;
}

/// Where a run lies, and its name in the report.
struct NamedRun {
  Path folder;
  std::string name;
  std::string sweep = "";  // the folder of its sweep, as the user gave it
  std::vector<std::string> varied = {};
  int64_t code = 0;
};

/// The name of a folder as the user gave it; of "." and "..", its own.
std::string name_of(const std::string& word) {
  const Path last = Path(word).filename();
  if (last != "." && last != "..") return word;
  const Path folder = absolute_of(word);  // ends in "/" there
  return (folder.has_filename() ? folder : folder.parent_path()).filename().native();
}

/// The run in a folder, all runs of a sweep, or all in a folder of runs. Throws Error(usage) if there is none.
std::vector<NamedRun> runs_in(const std::string& word, report::Report& report) {
  const Path folder = word;
  if (const PathKind kind = kind_of(folder); kind != PathKind::folder)
    fail(ExitCode::usage, in_quotes(word), kind == PathKind::nothing ? ": there is no such folder" : " is no folder",
         ": give the folder of a run (its --output), or of several");
  if (report::may_be_run(folder)) return {{folder, name_of(word)}};
  std::vector<std::string> names;
  report.sweep = report::read_sweep(folder);
  if (report.sweep) {
    names = report.sweep->runs;
    for (const auto* lines : {&report.sweep->missing, &report.sweep->strangers})
      report.missing.insert(report.missing.end(), lines->begin(), lines->end());
    if (names.empty())
      fail(ExitCode::usage, in_quotes(word),
           ": none of the sweep's runs has begun, or all are gone: run the sweep first");
  } else {
    for (const std::string& name : list_folder(folder))
      if (kind_of_entry(folder / name) == PathKind::folder && report::may_be_run(folder / name)) names.push_back(name);
    if (names.empty())
      fail(ExitCode::usage, in_quotes(word),
           " holds no run: give the folder of a run (its --output), with its metrics.jsonl, or of several");
  }
  std::vector<NamedRun> runs;
  for (const std::string& name : names) {
    runs.push_back({folder / name, name});
    if (!report.sweep) continue;
    const auto code = report.sweep->codes.find(name);
    runs.back().code = code == report.sweep->codes.end() ? 0 : code->second;
    runs.back().varied = report.sweep->keys;
    if (!report.sweep->keys.empty()) runs.back().sweep = name_of(word);
  }
  return runs;
}

/// Leaves one of several runs in the same folder, and warns of the others.
void remove_repeats(std::vector<NamedRun>& runs) {
  std::set<Path> seen;
  std::vector<std::string> repeated;
  std::erase_if(runs, [&](const NamedRun& run) {
    std::error_code unknown;
    const Path place = std::filesystem::canonical(run.folder, unknown);
    if (unknown || seen.insert(place).second) return false;
    repeated.push_back(in_quotes(run.folder.native()));
    return true;
  });
  if (repeated.empty()) return;
  const size_t more = repeated.size() - 1;
  warn(str(repeated.front(), " is given twice", more > 0 ? str(", and ", more, " more") : "",
           ": the report shows each run once"));
}

/// What is known of the runs; several are read at once. Throws Error(usage) if nothing is a run; what else cannot be
/// read is named in one warning.
report::Report read_report(const std::vector<std::string>& words) {
  report::Report report;
  bool unreadable = false;
  std::vector<NamedRun> named;
  for (const std::string& word : words) {
    try {
      for (NamedRun& run : runs_in(word, report)) {
        if (words.size() > 1 && run.folder != Path(word)) run.name = (Path(word) / run.name).native();
        named.push_back(std::move(run));
      }
    } catch (const Error& error) {
      if (words.size() == 1) throw;
      unreadable |= error.code() == ExitCode::io;
      report.missing.emplace_back(error.what());
    }
  }
  if (words.size() > 1) report.sweep.reset();
  remove_repeats(named);
  const auto read = [&](int64_t i) {
    const NamedRun& run = named[static_cast<size_t>(i)];
    report::RunParts parts = report::read_run(run.folder, run.name);
    parts.code = run.code;
    if (parts.contradicts_sweep())
      parts.missing.push_back(str(kSweepRecords, " says that its process failed with exit code ", run.code,
                                  ", so it is no result: run the sweep again"));
    if (words.size() == 1) return parts;
    parts.sweep = run.sweep;
    parts.varied = run.varied;
    parts.name = name_beside_others(parts, /*one=*/true);
    return parts;
  };
  const auto take = [&](int64_t, report::RunParts run) {
    if (is_run(run)) return report.runs.push_back(std::move(run));
    unreadable |= run.unreadable;
    report.missing.push_back(in_quotes(run.folder.native()) + " holds no run" +
                             (run.missing.empty() ? ""
                              : run.unreadable    ? " that can be read: " + run.missing.front()
                                                  : ", but damaged files: " + run.missing.front()));
  };
  in_order(std::ssize(named), std::min<int>(available_cores(), static_cast<int>(named.size())), read, take);
  if (report.runs.empty())
    fail(unreadable ? ExitCode::io : ExitCode::usage, report.missing.front(),
         report.missing.size() > 1 ? str("; and ", report.missing.size() - 1, " more") : "",
         unreadable ? "" : ": give the folder of a run, with its metrics.jsonl");
  report.title = words.size() == 1         ? name_of(words.front())
                 : report.runs.size() == 1 ? report.runs.front().name
                                           : str("Comparison of ", report.runs.size(), " runs");
  return report;
}

/// Which parts are missing, on one line.
std::string missing_text(const report::Report& report) {
  std::vector<std::string> lines = report.missing;
  for (const report::RunParts& run : report.runs)
    for (const std::string& line : run.missing) lines.push_back(in_quotes(run.folder.native()) + ": " + line);
  if (lines.empty()) return "";
  return str("the report is incomplete: ", lines.front(),
             lines.size() > 1 ? str(" (the page lists ", lines.size() - 1, " more)") : "");
}

/// The curves of the runs for a terminal, and the figures beneath.
void print_text(const report::Report& report) {
  const report::Terminal terminal = report::terminal();
  const report::Figure figure = report::progress_figure(report.runs);
  for (const std::string& line : text_of(figure, terminal)) std::printf("%s\n", line.c_str());
  for (size_t i = 0; i < report.runs.size(); ++i) {
    const report::RunParts& run = report.runs[i];
    const std::string text = report.runs.size() > 1 ? str(i + 1, " ") : "";
    const std::string words = str(text, run.name, ": ", state_of(run), ". ", report::progress_in_words(run.records));
    std::printf("\n%s", wrapped(printable(trimmed(words)), static_cast<size_t>(terminal.columns)).c_str());
  }
  if (report.runs.size() > 1) {
    const std::string best = printable(best_in_words(compare(report.runs, report.sweep), report.runs));
    if (!best.empty()) std::printf("\n\n%s", wrapped(best, static_cast<size_t>(terminal.columns)).c_str());
  }
  std::printf("\n");
}

/// Writes a text into `out`, or to standard output if that is empty; a file that does not begin as this program's own
/// is not replaced.
void write_out(const std::string& out, const std::string& text, std::string_view beginning) {
  if (out.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  require_replaceable_table(out, beginning, "--out");
  FileSystem files;
  write_file_atomic(files, out, text);
}

/// Where the page goes unless --out says so. Throws Error(io) if that is no place of this user's, and Error(usage) for
/// what would lead elsewhere, because a run's folder may come from others.
std::string default_out(const std::vector<std::string>& runs) {
  const Path folder = runs.size() == 1 ? runs.front() : ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(ExitCode::io, "cannot write the report into ", in_quotes(folder.native()), ": ", std::strerror(errno),
         ": give --out FILE");
  const Path page = runs.size() == 1 ? folder / kPage : Path(kPage);
  if (const PathKind kind = kind_of_entry(page); kind == PathKind::link || kind == PathKind::other)
    fail(ExitCode::usage, in_quotes(page.native()), " is ",
         kind == PathKind::link ? "a link" : "a device, pipe or socket", ": remove it, or give --out FILE");
  return page.native();
}

}  // namespace

int verb_report(const Words& words) {
  CLI::App app("Draws runs: curves, results, settings and machine, as one HTML file that needs nothing else.",
               "cifar-train report");
  ReportFlags f;
  app.add_option("RUN", f.runs, "folders of runs, also of some that go on, of a sweep, or with runs in them")
      ->type_name("FOLDER")
      ->required();
  app.add_option(
         "--out", f.out,
         "the file to write: NAME.html, NAME.csv or NAME.svg (default: RUN/report.html; report.html for several)")
      ->type_name("FILE");
  auto* const text = app.add_flag("--text", f.text, "draw the curves in the terminal");
  auto* const csv = app.add_flag("--csv", f.csv, "the curves as a table, on standard output or in --out");
  auto* const svg = app.add_flag("--svg", f.svg, "the chart alone, on standard output or in --out");
  text->excludes(csv)->excludes(svg)->excludes("--out");
  csv->excludes(svg);
  if (!parse(app, words)) return 0;

  if (app.count("--out") > 0) require_name_of_file(f.out, "--out");
  const Form form = form_of(f);
  const report::Report report = read_report(f.runs);
  warn(missing_text(report));
  if (form == Form::text) return print_text(report), 0;
  if (form == Form::table) return write_out(f.out, curve_table(report.runs), report::kCurveHeader), 0;
  if (form == Form::chart) return write_out(f.out, chart_file(report.runs), report::kChartBeginning), 0;
  if (f.out.empty()) f.out = default_out(f.runs);
  write_out(f.out, page_text(report), report::kPageBeginning);
  std::printf("%s\n", printable(f.out).c_str());
  return 0;
}

}  // namespace ct
