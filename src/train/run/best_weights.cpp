#include "train/run/best_weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/second_try.h"
#include "train/model_selection.h"
#include "train/weights.h"

namespace ct {
namespace {

constexpr const char *kSelectedBy = "selected_by", *kSelectedValue = "selected_value";

/// Every best.bin kept beside the checkpoints in that folder, that of the newest first.
std::vector<Path> all_saved(const Path& folder) {
  std::vector<Path> paths;
  for (const std::string& name : list_folder(folder))
    if (saved_best_step(name) && !name.starts_with(kTemporaryPrefix)) paths.push_back(folder / name);
  std::ranges::reverse(paths);
  return paths;
}

}  // namespace

Metadata selection_metadata(const Config& config, double value) {
  const Config::Train::Best& best = config.train.best;
  return {{kSelectedBy, best.split == BestSplit::last ? "last" : str(word_of(best.split), " ", word_of(best.metric))},
          {kSelectedValue, Json(value).dump()}};
}

void remove_spare_best(FileSystem& files, const Path& out, const Store& store) {
  const Path folder = out / kCheckpointFolder;
  const std::vector<int64_t> steps = store.list();
  for (const std::string& name : list_folder(folder))
    if (const auto step = saved_best_step(name);
        step && (name.starts_with(kTemporaryPrefix) || std::ranges::find(steps, *step) == steps.end()) &&
        is_own_weights(folder / name))
      remove_file(files, folder / name);
}

BestWeights::BestWeights(FileSystem& files, const Path& out, const Config& config, Warn warn)
    : files_(files), out_(out), config_(config), warn_(std::move(warn)) {}

BestEvaluation BestWeights::return_to(const Path& checkpoint, const RunState& state) {
  if (state.best_step < 0) return {};
  const Path own_folder = out_ / kCheckpointFolder;
  const bool own = same_place(checkpoint.parent_path(), own_folder);
  const Path folder = own ? own_folder : without_links(checkpoint).parent_path();
  const Path kept = folder / saved_best_name(state.step), best_then = folder.parent_path() / kBestFile;
  // A later evaluation may have replaced best.bin: that is undone. Another run's is of no interest but in need.
  std::vector<Candidate> expected = {candidate(kept, state.best_step)};
  std::vector<Path> others = all_saved(folder);
  if (own)
    expected.push_back(candidate(best_then));
  else
    others.insert(others.begin(), best_then);
  const auto [chosen, unread] = choose(expected, others, state);
  if (!unread.empty()) fail(ExitCode::io, "the best weights may be in a file that cannot be read: ", unread);
  warn_of(expected, chosen, state);
  // Beside the checkpoint too, so that returning to it again finds the same.
  if (chosen && own && !same_place(chosen->path, kept)) link_or_copy(files_, chosen->path, kept);
  return put_in_place(chosen, state);
}

BestEvaluation BestWeights::look_after(const RunState& state) {
  if (state.best_step < 0) return {};
  const auto now = stamp();
  if (!now || now != seen_) {
    const std::vector<Candidate> expected = {candidate(best(), state.best_step)};
    if (expected.front().unreadable) {
      warn_(expected.front().problem);
      return {state.best_step, state.best_value};
    }
    if (!expected.front().problem.empty()) {
      const auto [chosen, unread] = choose(expected, all_saved(out_ / kCheckpointFolder), state);
      if (!unread.empty()) {
        warn_(unread);
        return {state.best_step, state.best_value};
      }
      warn_of(expected, chosen, state);
      return put_in_place(chosen, state);
    }
    seen_ = now;
  }
  return {state.best_step, state.best_value};
}

std::string BestWeights::problem_unless_of(int64_t step, int64_t or_step) const {
  const Candidate found = candidate(best(), step);
  return found.step >= 0 && found.step == or_step ? "" : found.problem;
}

BestWeights::Candidate BestWeights::candidate(const Path& path, std::optional<int64_t> wanted_step) const {
  Candidate found{.path = path};
  try {
    const auto opened = with_second_try(
        [&] { return is_there(path) ? std::optional<SafetensorsFile>(std::in_place, path) : std::nullopt; });
    if (!opened) {
      found.problem = in_quotes(path.native()) + " is missing";
      return found;
    }
    const SafetensorsFile& file = *opened;
    const WeightsInfo info = info_of(file);
    if (info.model.name != config_.model.name)
      fail(ExitCode::checkpoint, in_quotes(path.native()), " is of the model ", in_quotes(info.model.name));
    if (info.seed != config_.seed)
      fail(ExitCode::checkpoint, in_quotes(path.native()), " is of a run of the seed ", info.seed);
    found.step = info.step;
    const auto text = [&](const char* key) {
      const auto at = file.metadata().find(key);
      return at == file.metadata().end() ? "" : at->second;
    };
    const Json value = Json::parse(text(kSelectedValue), nullptr, /*allow_exceptions=*/false);
    if (value.is_number() && text(kSelectedBy) == selection_metadata(config_, 0).at(kSelectedBy)) found.value = value;
    if (found.step != wanted_step.value_or(found.step))
      found.problem = str(in_quotes(path.native()), " is of step ", found.step);
  } catch (const Error& e) {
    if (e.code() == ExitCode::memory) throw;
    found.unreadable = e.code() == ExitCode::io;
    found.problem = e.what();
  }
  return found;
}

/// The weights of the best evaluation; otherwise the best of those of this run that say how good they are, none of
/// them from after the checkpoint. Others than the expected ones are read only where none of these is right.
BestWeights::Choice BestWeights::choose(const std::vector<Candidate>& expected, const std::vector<Path>& others,
                                        const RunState& state) const {
  Choice choice;
  std::optional<Candidate>& best = choice.weights;
  const auto is_right = [&](const Candidate& c) {
    const bool right = c.step == state.best_step;
    const bool counts = right || (c.step >= 0 && c.step <= state.step && c.value);
    const auto is_better = [&] {
      return config_.train.best.split == BestSplit::last ? c.step > best->step
                                                         : better(config_.train.best.metric, *c.value, *best->value);
    };
    if (counts && (right || !best || is_better())) best = c;
    if (c.unreadable && choice.unread.empty()) choice.unread = c.problem;
    if (right) choice.unread.clear();
    return right;
  };
  if (std::ranges::any_of(expected, is_right)) return choice;
  for (const Path& path : others)
    if (std::ranges::find(expected, path, &Candidate::path) == expected.end() && is_right(candidate(path))) break;
  return choice;
}

void BestWeights::warn_of(const std::vector<Candidate>& expected, const std::optional<Candidate>& chosen,
                          const RunState& state) const {
  const bool is_left = chosen && chosen->step == state.best_step;
  std::string problems;
  for (const Candidate& c : expected) {
    if (c.problem.empty()) continue;
    problems += (problems.empty() ? "" : "; ") + c.problem;
    if (is_left)
      warn_(str(c.problem, "; ", in_quotes(chosen->path.native()), ", which is undamaged and of step ", chosen->step,
                ", replaces it"));
  }
  if (is_left) return;
  warn_(str("the weights of the best evaluation, that of step ", state.best_step, ", are lost (", problems, "): ",
            chosen ? str("best.bin is now ", in_quotes(chosen->path.native()), " of step ", chosen->step,
                         ", the best of the remaining ones")
                   : str("best.bin is chosen again, among the evaluations from step ", state.step, " on")));
}

BestEvaluation BestWeights::put_in_place(const std::optional<Candidate>& chosen, const RunState& state) {
  if (!chosen) return {};
  if (!same_place(chosen->path, best())) link_or_copy(files_, chosen->path, best());
  seen_ = stamp();
  if (chosen->step == state.best_step) return {state.best_step, state.best_value};
  return {chosen->step, chosen->value.value()};
}

std::optional<BestWeights::Stamp> BestWeights::stamp() const {
  struct stat info {};
  if (uninterrupted([&] { return files_.status(best(), info); }) != 0) return std::nullopt;
  return Stamp{static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino), info.st_size, info.st_mtim.tv_sec,
               info.st_mtim.tv_nsec};
}

}  // namespace ct
