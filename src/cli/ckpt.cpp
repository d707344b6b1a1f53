// `ckpt ls|inspect|verify|diff` (prune: cli/ckpt_prune.cpp)
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/inspect.h"
#include "checkpoint/store.h"
#include "checkpoint/weights_hash.h"
#include "cli/subverbs.h"
#include "train/run/run_files.h"
#include "train/run/run_state.h"
#include "train/weights.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

/// What a PATH on the command line is: a file of tensors, a checkpoint's folder, or a run's.
enum class Target { file, checkpoint, run };

Target target_of(const Path& path) {
  const auto kind = [](const Path& at) { return kind_of(at, ExitCode::checkpoint); };
  if (kind(path) == PathKind::nothing)
    fail(ExitCode::usage, in_quotes(path.native()), ": no such file or folder; check the path");
  if (kind(path) != PathKind::folder) return Target::file;
  if (kind(path / "manifest.json") != PathKind::nothing || step_of(path.filename().native())) return Target::checkpoint;
  if (kind(path / kCheckpointFolder) == PathKind::folder) return Target::run;
  fail(ExitCode::checkpoint, in_quotes(path.native()),
       ": neither a run (it has no ckpt/) nor a checkpoint (it has no manifest.json); give one, or a .bin file");
}

/// "run/" and "run" are the same folder.
Path without_slash(const std::string& text) {
  const Path path(text);
  return path.has_filename() ? path : path.parent_path();
}

/// OUT/ckpt of a run, read-only.
class RunCheckpoints {
 public:
  explicit RunCheckpoints(const Path& run) : store_(files_, run / kCheckpointFolder, {}, require_resumable) {
    if (store_.list().empty())
      fail(ExitCode::checkpoint, in_quotes(run.native()), " holds no checkpoint; give the output folder of a run");
  }
  const Store& store() const { return store_; }

 private:
  FileSystem files_;
  Store store_;
};

/// The checkpoint that a run would continue from.
Path newest_good(const Path& run) {
  const RunCheckpoints checkpoints(run);
  const auto step = checkpoints.store().newest_good(warn);
  return checkpoints.store().path_of(*step);
}

std::string time_of(const Path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? local_time(info.st_mtime) : "-";
}

/// Of what can be read: Store::verify() says what cannot.
uint64_t bytes_in(const Path& folder) {
  uint64_t total = 0;
  try {
    std::error_code error;
    for (const std::string& name : list_folder(folder)) {
      const uint64_t bytes = fs::file_size(folder / name, error);
      if (!error) total += bytes;
    }
  } catch (const Error&) {
  }
  return total;
}

/// Weights and moments, whatever files they are cut into.
std::vector<LogicalTensor> all_tensors(const Checkpoint& checkpoint) {
  std::vector<LogicalTensor> tensors = logical_tensors(std::span(&checkpoint.weights, 1));
  const auto moments = checkpoint.moments();
  tensors.insert(tensors.end(), moments.begin(), moments.end());
  return tensors;
}

bool is_unread(const Error& error) { return error.code() == ExitCode::io; }

/// What `look` finds or throws; if a file cannot be read, it looks again, because faults of a network pass.
std::vector<Error> problems_seen(const std::function<std::vector<Error>()>& look) {
  const auto once = [&]() -> std::vector<Error> {
    try {
      return look();
    } catch (const Error& error) {
      if (error.code() == ExitCode::memory) throw;
      return {error};
    }
  };
  std::vector<Error> problems = once();
  return std::ranges::any_of(problems, is_unread) ? once() : problems;
}

/// A link that leads nowhere is not.
bool is_gone(const Path& path) { return kind_of_entry(path) == PathKind::nothing; }

int ls(const Words& words) {
  CLI::App app("Lists the checkpoints of a run; each is verified.", "cifar-train ckpt ls");
  std::string run;
  app.add_option("RUN", run, "a run's output folder")->type_name("FOLDER")->required();
  if (!parse(app, words)) return 0;

  const Path path = without_slash(run);
  if (target_of(path) != Target::run)
    fail(ExitCode::usage, in_quotes(path.native()), " is not the folder of a run; ckpt inspect shows one checkpoint");
  const RunCheckpoints checkpoints(path);
  const Store& store = checkpoints.store();
  std::printf("%10s  %8s  %-19s  %5s  %s\n", "step", "size", "saved", "ranks", "state");
  for (const int64_t step : store.list()) {
    const Path folder = store.path_of(step);
    std::vector<Error> problems = problems_seen([&] { return store.verify(step); });
    std::vector<std::string> not_finite;
    std::string ranks = "-";
    try {
      if (problems.empty()) {
        const Checkpoint checkpoint = store.load(step);
        ranks = std::to_string(provenance_from(checkpoint.state, checkpoint.state_path()).ranks);
        not_finite = ct::not_finite(all_tensors(checkpoint));
      }
    } catch (const Error& e) {
      problems.push_back(e);
    }
    if (is_gone(folder)) continue;  // a run that is still going has removed it meanwhile
    for (const Error& problem : problems) warn(problem.what());
    if (!not_finite.empty()) warn(str(folder.native(), ": ", not_finite_text(not_finite)));
    const char* state = !problems.empty() && std::ranges::all_of(problems, is_unread) ? "unreadable"
                        : !problems.empty()                                           ? "damaged"
                        : not_finite.empty()                                          ? "good"
                                                                                      : "not finite";
    std::printf("%10lld  %8s  %-19s  %5s  %s\n", static_cast<long long>(step), human_bytes(bytes_in(folder)).c_str(),
                time_of(folder / "manifest.json").c_str(), ranks.c_str(), state);
  }
  return 0;
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void print_tensors(const std::vector<TensorView>& tensors) {
  const auto summaries = summarise(tensors);
  size_t width = 6;
  for (const TensorSummary& s : summaries) width = std::max(width, plain(s.name).size());
  std::printf("%-*s  %-4s  %-16s  %12s  %12s  %12s  %12s  %s\n", static_cast<int>(width), "tensor", "type", "shape",
              "min", "max", "mean", "l2", "crc32c");
  uint64_t elements = 0;
  for (const TensorSummary& s : summaries) {
    elements += s.elements;
    std::printf("%-*s  %-4s  %-16s  %12.6g  %12.6g  %12.6g  %12.6g  %s%s\n", static_cast<int>(width),
                plain(s.name).c_str(), std::string(name_of(s.dtype)).c_str(), shape_text(s.shape).c_str(), s.min, s.max,
                s.mean, s.l2, crc_text(s.crc).c_str(),
                s.nonfinite ? str("  ", s.nonfinite, " not finite").c_str() : "");
  }
  std::printf("%zu tensors, %llu elements\n", summaries.size(), static_cast<unsigned long long>(elements));
}

void print_file(const SafetensorsFile& file) {
  print_tensors(file.views());
  for (const auto& [key, value] : file.metadata())
    std::printf("metadata %s: %s\n", plain(key).c_str(), plain(value).c_str());
  if (!file.checksums()) std::printf("the file has no checksums: only its layout was checked\n");
}

void print_weights_hash(const SafetensorsFile& weights) {
  std::string hash, average;
  try {
    hash = weights_sha256(weights);
    average = ema_sha256(weights);
  } catch (const Error& error) {  // another program's file may hold other types
    hash = str("none (", error.what(), ")");
  }
  std::printf("weights_sha256: %s\n", hash.c_str());
  if (!average.empty()) std::printf("ema_sha256: %s\n", average.c_str());
}

void print_not_finite(const std::vector<std::string>& names) {
  if (!names.empty()) std::printf("%s\n", printable(not_finite_text(names)).c_str());
}

/// Over what equal runs have in common: tensors and where the run stands, not ranks, stage, device or configuration.
std::string hash_of_state(const Checkpoint& checkpoint) {
  return state_sha256(all_tensors(checkpoint), to_json(run_state_from(checkpoint.state, checkpoint.state_path())));
}

int inspect(const Words& words) {
  CLI::App app("Shows the tensors, metadata and hashes of a weights file or checkpoint.", "cifar-train ckpt inspect");
  std::string text;
  bool hash = false;
  app.add_option("PATH", text,
                 "a .bin or .safetensors file, or the folder of a checkpoint or run (its newest valid checkpoint)")
      ->required();
  app.add_flag("--hash", hash,
               "also print one hash over weights, averages, moments and state; equal runs have equal hashes");
  if (!parse(app, words)) return 0;

  Path path = without_slash(text);
  const Target target = target_of(path);
  if (target == Target::file) {
    if (hash)
      fail(ExitCode::usage, "--hash: ", in_quotes(path.native()),
           " holds weights only; give a checkpoint's folder or a run's");
    const SafetensorsFile file(path);
    std::printf("%s\n", printable(path.native()).c_str());
    print_file(file);
    print_not_finite(not_finite(logical_tensors(std::span(&file, 1))));
    print_weights_hash(file);
    file.require_unchanged();
    return 0;
  }
  if (target == Target::run) path = newest_good(path);
  const Checkpoint checkpoint = load_checkpoint(path, {});
  const Provenance made_by = provenance_from(checkpoint.state, checkpoint.state_path());
  const std::string state_hash = hash ? hash_of_state(checkpoint) : "";
  std::printf("%s\n", printable(path.native()).c_str());
  print_file(checkpoint.weights);
  for (const SafetensorsFile& file : checkpoint.optimizer) {
    std::printf("\n%s\n", printable(file.path().filename().native()).c_str());
    print_tensors(file.views());
  }
  std::printf("\n");
  const Json state = to_json(run_state_from(checkpoint.state, checkpoint.state_path()));
  for (const auto& [key, value] : state.items())
    std::printf("state %s: %s\n", plain(key).c_str(), value.dump().c_str());
  std::printf("run: %s, model %s, data %s, %lld ranks, %s\n", plain(checkpoint.manifest.identity.run).c_str(),
              plain(checkpoint.manifest.identity.model).c_str(), plain(made_by.dataset).c_str(),
              static_cast<long long>(made_by.ranks), plain(made_by.device).c_str());
  print_not_finite(checkpoint.manifest.not_finite);
  print_weights_hash(checkpoint.weights);
  if (hash) std::printf("state_sha256: %s\n", state_hash.c_str());
  checkpoint.require_unchanged();
  return 0;
}

/// The tensors of a file or checkpoint, kept open.
class Opened {
 public:
  explicit Opened(Path path) {
    const Target target = target_of(path);
    if (target == Target::run) path = newest_good(path);
    path_ = path;
    if (target == Target::file)
      file_.emplace(path);
    else
      checkpoint_.emplace(load_checkpoint(path, {}));
    for (const LogicalTensor& tensor : file_ ? logical_tensors(std::span(&*file_, 1)) : all_tensors(*checkpoint_))
      views_.push_back(tensor.view(storage_.emplace_back()));
  }
  const Path& path() const { return path_; }
  const std::vector<TensorView>& views() const { return views_; }
  std::vector<std::string> not_finite() const {
    return ct::not_finite(checkpoint_ ? all_tensors(*checkpoint_) : logical_tensors(std::span(&*file_, 1)));
  }
  void require_unchanged() const { file_ ? file_->require_unchanged() : checkpoint_->require_unchanged(); }
  std::optional<Json> state() const {
    return checkpoint_ ? std::optional(to_json(run_state_from(checkpoint_->state, checkpoint_->state_path())))
                       : std::nullopt;
  }

 private:
  Path path_;
  std::optional<SafetensorsFile> file_;
  std::optional<Checkpoint> checkpoint_;
  std::list<std::vector<std::byte>> storage_;  // of tensors put together from shards
  std::vector<TensorView> views_;
};

constexpr int kTheyDiffer = 1;  // diff's own exit code for it

/// Prints a line and returns true if the tensors differ.
bool print_difference(const TensorDifference& d) {
  const std::string name = plain(d.name);
  switch (d.kind) {
    case TensorDifference::Kind::same_bytes:
      return false;
    case TensorDifference::Kind::only_first:
      std::printf("%s: only in the first\n", name.c_str());
      return true;
    case TensorDifference::Kind::only_second:
      std::printf("%s: only in the second\n", name.c_str());
      return true;
    case TensorDifference::Kind::shape_or_type:
      std::printf("%s: another shape or type\n", name.c_str());
      return true;
    case TensorDifference::Kind::values:
      std::printf("%s: %llu elements differ, by %.6g at most, l2 %.6g\n", name.c_str(),
                  static_cast<unsigned long long>(d.differing), d.largest, d.l2);
      return true;
  }
  fail(ExitCode::bug, "unknown kind of difference");
}

int diff(const Words& words) {
  CLI::App app(
      "Compares two weights files, checkpoints or runs (their newest valid checkpoints), tensor by tensor.\n"
      "Exit code 1 if they differ, as diff does.",
      "cifar-train ckpt diff");
  std::string first, second;
  app.add_option("A", first, "a weights file, or the folder of a checkpoint or run")->required();
  app.add_option("B", second, "another")->required();
  if (!parse(app, words)) return 0;

  const Opened a(without_slash(first)), b(without_slash(second));
  size_t different = 0, all = 0;
  bool same_state = true;
  for (const TensorDifference& d : differences(a.views(), b.views())) {
    ++all;
    different += print_difference(d);
  }
  if (const auto x = a.state(), y = b.state(); x && y) {
    Json both = *x;
    both.update(*y);
    for (const auto& [key, any] : both.items()) {
      const Json left = x->value(key, Json(0)),
                 right = y->value(key, Json(0));  // a rare number is left out where it is 0
      if (left == right) continue;
      same_state = false;
      std::printf("state %s: %s and %s\n", plain(key).c_str(), left.dump().c_str(), right.dump().c_str());
    }
  }
  for (const Opened* weights : {&a, &b})
    if (const auto names = weights->not_finite(); !names.empty())
      warn(str(weights->path().native(), ": ", not_finite_text(names)));
  a.require_unchanged();
  b.require_unchanged();
  std::printf("%s and %s: %zu of %zu tensors differ\n", printable(a.path().native()).c_str(),
              printable(b.path().native()).c_str(), different, all);
  return different == 0 && same_state ? 0 : kTheyDiffer;
}

/// Prints "good" or its problems, which are added to `problems`. What is not finite is as it was written: no problem.
void report(const Path& path, const std::vector<Error>& wrong, std::vector<Error>& problems,
            const std::vector<std::string>& not_finite = {}, const char* remark = "") {
  const std::string but = not_finite.empty() ? "" : ", but " + not_finite_text(not_finite);
  if (wrong.empty()) std::printf("%s: good%s%s\n", printable(path.native()).c_str(), printable(but).c_str(), remark);
  for (const Error& problem : wrong) std::printf("%s\n", printable(problem.what()).c_str());
  problems.insert(problems.end(), wrong.begin(), wrong.end());
}

enum class Missing { is_a_problem, was_removed };  // was_removed: by a run that is still going

void verify_file(const Path& path, std::vector<Error>& problems, Missing missing = Missing::is_a_problem) {
  std::vector<std::string> not_finite;
  bool checksums = true;
  const auto wrong = problems_seen([&] {
    const SafetensorsFile file(path, SafetensorsFile::Check::header);
    std::vector<Error> damaged;
    for (const std::string& line : file.damaged_tensors()) damaged.emplace_back(ExitCode::checkpoint, line);
    checksums = file.checksums();
    not_finite = ct::not_finite(logical_tensors(std::span(&file, 1)));
    return damaged;
  });
  if (!wrong.empty() && missing == Missing::was_removed && is_gone(path)) return;
  report(path, wrong, problems, not_finite, checksums ? "" : " (it has no checksums: only its layout was checked)");
}

/// `open` throws what is wrong with a checkpoint of which nothing else is.
void verify_opened(const std::function<Checkpoint()>& open, const Path& path, std::vector<Error> wrong,
                   std::vector<Error>& problems, Missing missing) {
  std::vector<std::string> not_finite;
  if (wrong.empty())
    wrong = problems_seen([&] {
      not_finite = ct::not_finite(all_tensors(open()));
      return std::vector<Error>();
    });
  if (!wrong.empty() && missing == Missing::was_removed && is_gone(path)) return;
  report(path, wrong, problems, not_finite);
}

void verify_step(const Store& store, int64_t step, const Path& path, std::vector<Error>& problems,
                 Missing missing = Missing::is_a_problem) {
  verify_opened([&] { return load_checkpoint(path, {}, SafetensorsFile::Check::header); }, path,
                problems_seen([&] { return store.verify(step); }), problems, missing);
}

void verify_checkpoint(const Path& path, std::vector<Error>& problems) {
  if (const auto step = step_of(path.filename().native())) {
    FileSystem files;
    return verify_step(Store(files, path.parent_path(), {}, require_resumable), *step, path, problems);
  }
  const auto open = [&] {  // a copy under another name
    Checkpoint checkpoint = load_checkpoint(path, {});
    require_resumable(checkpoint);
    return checkpoint;
  };
  verify_opened(open, path, {}, problems, Missing::is_a_problem);
}

void verify_run(const Path& path, std::vector<Error>& problems) {
  const RunCheckpoints checkpoints(path);
  const Store& store = checkpoints.store();
  for (const int64_t step : store.list()) verify_step(store, step, store.path_of(step), problems, Missing::was_removed);
  for (const Path& folder : {path, path / kCheckpointFolder})
    for (const std::string& name : list_folder(folder))
      if (name.ends_with(".bin") && !name.starts_with(kTemporaryPrefix))
        verify_file(folder / name, problems, Missing::was_removed);
}

int verify_checkpoint(const Words& words) {
  CLI::App app("Checks every byte of weights files and checkpoints against their checksums.",
               "cifar-train ckpt verify");
  std::vector<std::string> paths;
  app.add_option("PATH", paths, "weights files, or folders of checkpoints or runs (everything in them)")->required();
  if (!parse(app, words)) return 0;

  std::vector<Error> problems;
  for (const std::string& text : paths) {
    const Path path = without_slash(text);
    try {
      switch (target_of(path)) {
        case Target::file:
          verify_file(path, problems);
          break;
        case Target::checkpoint:
          verify_checkpoint(path, problems);
          break;
        case Target::run:
          verify_run(path, problems);
          break;
      }
    } catch (const Error& error) {
      if (error.code() == ExitCode::memory || error.code() == ExitCode::usage) throw;
      report(path, {error}, problems);
    }
  }
  if (problems.empty()) return 0;
  const auto damaged = std::ranges::find_if_not(problems, is_unread);
  const Error& worst = damaged != problems.end() ? *damaged : problems.front();
  fail(is_unread(worst) ? ExitCode::io : ExitCode::checkpoint, worst.what(),
       problems.size() > 1 ? str(" (and ", problems.size() - 1, " more problems, listed above)") : "");
}

}  // namespace

int verb_ckpt(const Words& words) {
  static constexpr std::array kMembers = {
      Verb{"ls",
           "the checkpoints of a run",
           ls,
           {"cifar-train ckpt ls runs/tutorial", "cifar-train ckpt ls runs/resnet18"}},
      Verb{"inspect",
           "tensors, metadata and hashes",
           inspect,
           {"cifar-train ckpt inspect runs/tutorial", "cifar-train ckpt inspect runs/tutorial/best.bin"}},
      Verb{"verify",
           "compare everything with its checksums",
           verify_checkpoint,
           {"cifar-train ckpt verify runs/tutorial", "cifar-train ckpt verify runs/tutorial/best.bin"}},
      Verb{"prune",
           "remove all but the newest",
           ckpt_prune,
           {"cifar-train ckpt prune runs/tutorial --dry-run", "cifar-train ckpt prune runs/tutorial --keep 1"}},
      Verb{"diff",
           "the differences between two of them",
           diff,
           {"cifar-train ckpt diff runs/a runs/b", "cifar-train ckpt diff runs/a/best.bin runs/a/last.bin"}},
  };
  return run_family({"ckpt", "lists, shows, checks, compares and removes checkpoints", kMembers}, words);
}

}  // namespace ct
