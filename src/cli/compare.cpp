// cifar-train compare: one network trained on one CPU rank and on several, as threads, as processes and with the ZeRO
// stages. Every way is a process of this program with a run's folder of its own. The weights must be the same.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/paths.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "cli/children.h"
#include "cli/compare/record.h"
#include "cli/compare/table.h"
#include "cli/compare/ways.h"
#include "cli/csv_table.h"
#include "cli/fitting_run.h"
#include "cli/report/page.h"
#include "cli/training_words.h"
#include "cli/verbs.h"
#include "comm/detect_launch.h"
#include "metrics/console.h"
#include "train/signals.h"

namespace ct {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kSteps = 500, kMostSteps = 1'000'000'000;

struct CompareFlags {
  TrainingWords training;
  int64_t ranks = 2;
  std::optional<int64_t> steps;
  std::string output = "runs/compare", html;
  bool quiet = false;
};

void add_options(CLI::App& app, CompareFlags& f) {
  f.training.add_to(app);
  app.add_option("--ranks", f.ranks, "ranks, where there are several")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--steps", f.steps,
                 str("optimizer steps (default: as train.max_steps or --set train.epochs says, otherwise ", kSteps,
                     "); 0: as the configuration says"))
      ->check(CLI::Range(int64_t{0}, kMostSteps));
  app.add_option("--output", f.output,
                 "the folder of the runs' folders; a comparison of the same settings that is there goes on, one of "
                 "other settings is an error")
      ->type_name("FOLDER")
      ->capture_default_str();
  app.add_option("--html", f.html, "also write this file: the table, and the report of the runs")->type_name("FILE");
  app.add_flag("-q,--quiet", f.quiet, "print the table only");
}

/// The configuration of all ways; `sources` gets the steps of --steps, or those that nothing else says.
Config config_of_ways(ConfigSources& sources, const CompareFlags& f, std::vector<std::string>* warnings) {
  std::vector<std::string> not_yet;  // the warnings, before the steps are known
  const Config config = load_config(sources, &not_yet);
  const auto is_word = [&](const char* key) {
    const auto origin = config.origins.find(key);
    return origin != config.origins.end() && origin->second.starts_with('-');
  };
  if (is_word("zero_optimization.stage"))
    fail(ExitCode::usage, config.origins.at("zero_optimization.stage"),
         ": leave it out, because compare trains with every stage");
  if (f.steps && is_word("train.max_steps"))
    fail(ExitCode::usage, "--steps and ", config.origins.at("train.max_steps"), " are both given: leave one out");
  const bool is_said = is_word("train.max_steps") || is_word("train.epochs") || config.train.max_steps >= 0;
  const int64_t steps = f.steps ? *f.steps : is_said ? 0 : kSteps;
  if (steps > 0) sources.sets.push_back(str("train.max_steps=", steps));
  // Epochs of however few steps must not end a run earlier.
  if (steps > config.train.epochs) sources.sets.push_back(str("train.epochs=", kMostSteps));
  return load_config(sources, warnings);
}

/// One run after the other. A run that fails does not keep the others from being trained.
class Comparison {
 public:
  Comparison(const CompareFlags& flags, std::vector<Way> ways, Console& console)
      : out_(flags.output), ways_(std::move(ways)), console_(console), width_(name_width(ways_)) {}

  /// Trains in this way unless it is trained. `words`: of cifar-train.
  void train(size_t number, const std::vector<std::string>& words) {
    const Way& way = ways_[number];
    FileSystem files;
    make_folders(files, folder(way));
    const Path log = folder(way) / "log.txt";
    children_.start(number, words, log);
    const int code = wait(way, number);
    if (stopped()) return;
    if (code != 0) {
      std::string why = last_error_in(log);
      if (!why.empty()) why.insert(0, ": ");
      console_.note(str(way.name, ": failed with exit code ", code, why));
      if (!failure_) failure_.emplace(ExitCode{code}, str(way.name, why, "; look at ", in_quotes(log.native())));
      return;
    }
    runs_.push_back(report::read_run(folder(way), way.name));
    const report::RunRecords& records = runs_.back().records;
    if (runs_.size() == 1) console_.data(head_of_ways(width_));
    console_.data(line_of_way(way, width_, records));
    hashes_[way.device == "cpu" ? "CPU" : "GPU"][report::text_in(records.end, "weights_sha256")].push_back(way.name);
  }

  static bool stopped() { return StopSignals::requested() != 0; }
  const std::vector<report::RunParts>& runs() const { return runs_; }

  /// Says whether the weights are the same. Throws the failure of the first run that failed, and Error(bug) if weights
  /// differ that must not.
  void conclude() const {
    for (const auto& [device, by_hash] : hashes_) {
      if (by_hash.size() > 1)
        fail(ExitCode::bug, "the weights are not the same: those of ",
             joined(by_hash, ", ", [](const auto& of) { return joined(of.second, " and ") + " have " + of.first; }));
      const auto& [hash, names] = *by_hash.begin();
      if (names.size() > 1) console_.data(str("the same weights by all ", names.size(), " on ", device, "s: ", hash));
    }
    if (failure_) throw *failure_;
  }

 private:
  Path folder(const Way& way) const { return out_ / way.folder; }

  int wait(const Way& way, size_t number) {
    auto asked = std::chrono::steady_clock::time_point();  // to stop
    for (;; std::this_thread::sleep_for(10ms)) {
      if (const auto ended = children_.poll()) return ended->code;
      if (stopped() && std::chrono::steady_clock::now() - asked > 1s) {
        asked = std::chrono::steady_clock::now();
        children_.stop();
      }
      console_.advance([&] { return way.name + ": " + children_.progress(number); });
    }
  }

  const Path out_;
  const std::vector<Way> ways_;
  Console& console_;
  const size_t width_;
  Children children_;
  std::vector<report::RunParts> runs_;
  std::map<std::string, std::map<std::string, std::vector<std::string>>> hashes_;  // names by device and hash
  std::optional<Error> failure_;                                                   // of the first run that failed
};

}  // namespace

int verb_compare(const Words& words) {
  CLI::App app("Trains one network on one rank, on several, and with the ZeRO stages, and compares time and memory.",
               "cifar-train compare");
  CompareFlags f;
  add_options(app, f);
  if (!parse(app, words)) return 0;
  if (const Launch launch = detect_launch(); launch.parallel())
    fail(ExitCode::usage, "compare starts its runs itself: remove ", name(launch.kind), " and give --ranks");
  if (const std::string ending = lower_case(Path(f.html).extension().string());
      !ending.empty() && ending != ".html" && ending != ".htm")
    fail(ExitCode::usage, "--html ", in_quotes(f.html), ": the page is HTML: give a name such as compare.html");
  if (!f.html.empty()) require_replaceable_table(f.html, report::kPageBeginning, "--html");

  f.training.init_options();  // refuses words that do not fit
  std::vector<std::string> warnings;
  ConfigSources sources = f.training.sources(&warnings);
  require_words_of_several_runs(f.training, sources, "compare", f.output);
  const Config config = config_of_ways(sources, f, &warnings);
  for (const std::string& line : warnings) warn(line);
  Words common = train_words(sources);
  const Words initial = f.training.initial_words();
  common.insert(common.end(), initial.begin(), initial.end());
  std::vector<std::string> left_out;
  const std::vector<Way> ways = ways_to_train(config, f.ranks, &left_out);
  const ComparedSettings settings = compared_settings(config, f.ranks, joined(initial, " "));
  std::vector<Words> commands;
  for (const Way& way : ways) commands.push_back(words_of_way(way, common, config, f.ranks, f.output));
  Config placed = config;
  placed.output = f.output;
  shown("checking the configuration", [&] { require_fitting_run(placed, 1, f.training); });
  const bool goes_on = holds_comparison(f.output, settings);

  outlive_readers();  // as a run does
  Console console(true, f.quiet ? Verbosity::quiet : Verbosity::normal);
  if (goes_on)
    console.note(f.output + ": goes on with the comparison that is there; finished ways are not trained again");
  FileSystem files;
  if (!goes_on) begin_comparison(files, f.output, settings);
  Comparison comparison(f, ways, console);
  for (size_t i = 0; i < ways.size() && !Comparison::stopped(); ++i) comparison.train(i, commands[i]);
  if (Comparison::stopped()) {
    console.note("stopped on request: run the same command again to continue");
    return static_cast<int>(ExitCode::stopped);
  }
  if (!comparison.runs().empty()) console.note(kColumnsOfWays);
  for (const std::string& line : left_out) console.note(line);
  if (!f.html.empty() && !comparison.runs().empty())
    write_file_atomic(files, f.html,
                      report::page_text({.title = "Ways to train " + config.model.name, .runs = comparison.runs()}));
  comparison.conclude();
  return 0;
}

}  // namespace ct
