// cifar-train lr-find: a short run whose rate rises, the picture of its losses, and a rate.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/terminal.h"
#include "cli/ranks.h"
#include "cli/training_words.h"
#include "cli/verbs.h"
#include "metrics/console.h"
#include "metrics/metrics_log.h"
#include "metrics/rate_range.h"
#include "train/config/document.h"
#include "train/config/load.h"
#include "train/session.h"

namespace ct {
namespace {

struct LrFindFlags {
  TrainingWords training;
  std::string ranks = "auto";
  double from = 1e-6, to = 1;
  int64_t steps = 0;  // 0: by the batch
  bool json = false;
};

/// The rate of step 0 is `from`, that of the last one is `to`.
double growth(const LrFindFlags& f) { return std::pow(f.to / f.from, 1.0 / static_cast<double>(f.steps - 1)); }

/// Small batches have noisy losses: a hundred batches of 32 images, but at most a thousand.
int64_t default_steps(int64_t batch) { return std::clamp<int64_t>(3200 / batch, 100, 1000); }

/// Trains until the loss diverges or all steps are done.
std::vector<RatePoint> run_test(const LrFindFlags& f, const Config& config, Communicator& comm) {
  Console console(comm.rank() == 0, Verbosity::normal);
  console.progress("preparing the network");
  TrainingSession session(config, comm, {.evaluates = false, .warn = comm.rank() == 0 ? warn : nullptr});
  session.prepare();
  session.make_data();
  if (const std::string& file = f.training.initial_file(); file.empty()) {
    session.initialize();
  } else {
    const auto said = comm.rank() == 0 ? warn : nullptr;
    for (const std::string& note : load_initial_weights(file, f.training.init_options(), session, said))
      console.note(note);
  }
  const int64_t of_epoch = session.steps_per_epoch();
  std::vector<RatePoint> points;
  for (int64_t step = 0; step < f.steps && !has_diverged(smoothed(points, f.steps)); ++step) {
    session.step(step / of_epoch, step % of_epoch);
    session.engine().settle();
    console.advance([&] { return str("step ", step + 1, "/", f.steps); });
    const std::vector<double> losses = session.engine().drain_losses();
    points.push_back({f.from * std::pow(growth(f), static_cast<double>(step)),
                      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(session.batch().train)});
  }
  session.engine().drain_balances();
  session.engine().drain_outcomes();
  session.check_data();
  session.finish();
  return points;
}

/// `takes_lr`: --lr sets the rate of this configuration.
void print(const LrFindFlags& f, bool takes_lr, const std::vector<RatePoint>& points) {
  const std::vector<RatePoint> smooth = smoothed(points, f.steps);
  const auto found = suggest_rate(smooth);
  if (f.json) {
    Json result = {{"steps", points.size()}, {"diverged", has_diverged(smooth)}};
    result["lr"] = found ? Json(found->rate) : Json();
    result["steepest"] = found ? Json(found->steepest) : Json();
    result["lowest"] = found ? Json(found->lowest) : Json();
    for (const RatePoint& point : points) {
      result["rates"].push_back(point.rate);
      result["losses"].push_back(std::isfinite(point.loss) ? Json(point.loss) : Json());
    }
    std::printf("%s\n", result.dump().c_str());
    return;
  }
  for (const std::string& line : picture(smooth, found ? std::optional(found->rate) : std::nullopt))
    std::printf("%s\n", line.c_str());
  if (!found)
    fail(ExitCode::diverged, "lr-find: the loss falls clearly at no rate from ", document::flow(f.from), " to ",
         document::flow(f.to), "; try --from, --to, or more --steps");
  print_line(fmt::format("{} steps; the loss falls most steeply at {:.2g}, and is lowest at {:.2g}: try {} {:.2g}",
                         points.size(), found->steepest, found->lowest, takes_lr ? "--lr" : "a rate of", found->rate));
}

}  // namespace

int verb_lr_find(const Words& words) {
  CLI::App app("Trains a few steps with a rising rate, draws the loss against the rate, and names a rate.",
               "cifar-train lr-find");
  LrFindFlags f;
  f.training.add_to(app);
  app.get_option("--lr")->group("");  // which is found here
  app.add_option("--from", f.from, "the first rate")->check(number_between(1e-30, 1e30));
  app.add_option("--to", f.to, "the last rate")->check(number_between(1e-30, 1e30));
  app.add_option("--steps", f.steps, "optimizer steps (default: 100, of small batches up to 1000)")
      ->check(CLI::Range(20, 10000));
  app.add_option("--ranks", f.ranks, "ranks as threads: a number or auto")->type_name("N");
  app.add_flag("--json", f.json, "one JSON object instead of text");
  if (!parse(app, words)) return 0;
  if (f.to <= f.from) fail(ExitCode::usage, "--to ", f.to, " must be more than --from ", f.from);

  if (!f.training.lr.empty())
    fail(ExitCode::usage, "--lr ", in_quotes(f.training.lr), ": lr-find looks for the rate: give --from and --to");

  f.training.init_options();  // refuses words that do not fit
  std::vector<std::string> warnings;
  ConfigSources sources = f.training.sources(&warnings);
  std::vector<std::string> not_yet;
  const Config given = load_config(sources, &not_yet);
  if (f.steps == 0) f.steps = default_steps(batch_for(given.batch, rank_count(given, f.ranks)).train);
  const bool takes_lr = optim::overrides_lr(given.scheduler).empty() || !optim::peak_lr(given.scheduler).empty();
  for (const auto& [key, value] : {std::pair{"optimizer.params.lr", f.from}, {"scheduler.params.gamma", growth(f)}})
    sources.overrides.push_back({key, document::flow(value), "lr-find"});
  sources.overrides.insert(sources.overrides.end() - 1, {"scheduler.type", "ExponentialLR", "lr-find"});
  Config config = load_config(sources, &warnings);
  settle_bf16(config);
  const int ranks = rank_count(config, f.ranks);
  require_connection(config, detect_launch());
  batch_for(config.batch, ranks);
  return run_job(ranks, [&](Communicator& comm) {
    const std::vector<RatePoint> points = run_test(f, config, comm);
    if (comm.rank() == 0) print(f, takes_lr, points);
    return 0;
  });
}

}  // namespace ct
