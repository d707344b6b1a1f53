// `ckpt ls|inspect|verify`
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <memory>

#include "base/crc32c.h"
#include "base/error.h"
#include "checkpoint/inspect.h"
#include "checkpoint/store.h"
#include "checkpoint/weights_hash.h"
#include "cli/subverbs.h"
#include "train/run_folder.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

/// What a PATH on the command line is: a file of tensors, a checkpoint's folder, or a run's.
enum class Target { file, checkpoint, run };

Target target_of(const Path& path) {
  std::error_code error;  // what may not be looked at is not there
  if (!fs::exists(path, error))
    fail(ExitCode::checkpoint, in_quotes(path.native()), ": no such file or folder; check the path");
  if (!fs::is_directory(path, error)) return Target::file;
  if (fs::exists(path / "manifest.json", error) || step_of(path.filename().native())) return Target::checkpoint;
  if (fs::is_directory(path / "ckpt", error)) return Target::run;
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
  explicit RunCheckpoints(const Path& run) : store_(files_, run / "ckpt", {}) {
    if (store_.list().empty())
      fail(ExitCode::checkpoint, in_quotes(run.native()), " holds no checkpoint; give the output folder of a run");
  }
  const Store& store() const { return store_; }

 private:
  FileSystem files_;
  Store store_;
};

std::string local_time(const Path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "-";
  std::tm parts{};
  localtime_r(&info.st_mtime, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

uint64_t bytes_in(const Path& folder) {
  uint64_t total = 0;
  std::error_code error;
  for (const std::string& name : list_folder(folder)) {
    const uint64_t bytes = fs::file_size(folder / name, error);
    if (!error) total += bytes;
  }
  return total;
}

int ls(const Words& words) {
  CLI::App app("Lists the checkpoints of a run; each is verified.", "cifar-train ckpt ls");
  std::string run;
  app.add_option("RUN", run, "a run's output folder")->required();
  if (!parse(app, words)) return 0;

  const Path path = without_slash(run);
  if (target_of(path) != Target::run)
    fail(ExitCode::usage, in_quotes(path.native()), " is no run's folder; see one checkpoint with ckpt inspect");
  const RunCheckpoints checkpoints(path);
  const Store& store = checkpoints.store();
  std::printf("%10s  %8s  %-19s  %5s  %s\n", "step", "size", "saved", "ranks", "state");
  for (const int64_t step : store.list()) {
    const Path folder = store.path_of(step);
    auto problems = store.verify(step);
    std::string ranks = "-";
    try {
      if (problems.empty()) ranks = std::to_string(provenance_from(store.load(step).state).ranks);
    } catch (const Error& e) {
      problems.emplace_back(e.what());
    }
    if (!fs::exists(folder)) continue;  // a run that is still going has removed it meanwhile
    for (const std::string& line : problems) std::fprintf(stderr, "warning: %s\n", line.c_str());
    std::printf("%10lld  %8s  %-19s  %5s  %s\n", static_cast<long long>(step), human_bytes(bytes_in(folder)).c_str(),
                local_time(folder / "manifest.json").c_str(), ranks.c_str(), problems.empty() ? "good" : "damaged");
  }
  return 0;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

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
  if (!file.checksums()) std::printf("the file carries no checksums: only its layout was checked\n");
}

void print_weights_hash(const SafetensorsFile& weights) {
  std::string hash;
  try {
    hash = weights_sha256(weights.views());
  } catch (const Error& error) {  // another program's file may hold other types
    hash = str("none (", error.what(), ")");
  }
  std::printf("weights_sha256: %s\n", hash.c_str());
}

/// Over what equal runs have in common: tensors and where the run stands, not ranks, device or configuration.
std::string hash_of_state(const Path& path, const Checkpoint& checkpoint) {
  if (checkpoint.optimizer.size() > 1)
    fail(ExitCode::checkpoint, in_quotes(path.native()), " has ", checkpoint.optimizer.size(),
         " optimizer files where this version reads one; use the version that wrote it");
  std::vector<TensorView> tensors = checkpoint.weights.views();
  for (const SafetensorsFile& file : checkpoint.optimizer) {
    const auto moments = file.views();
    tensors.insert(tensors.end(), moments.begin(), moments.end());
  }
  return state_sha256(tensors, to_json(run_state_from(checkpoint.state)));
}

int inspect(const Words& words) {
  CLI::App app("Shows the tensors, metadata and hashes of a weights file or checkpoint.", "cifar-train ckpt inspect");
  std::string text;
  bool hash = false;
  app.add_option("PATH", text, "a .bin or .safetensors file, a checkpoint's folder, or a run's (its newest good one)")
      ->required();
  app.add_flag("--hash", hash, "one number over weights, moments and state, equal for runs that agree");
  if (!parse(app, words)) return 0;

  Path path = without_slash(text);
  const Target target = target_of(path);
  if (target == Target::file) {
    if (hash)
      fail(ExitCode::usage, "--hash: ", in_quotes(path.native()),
           " holds weights only; give a checkpoint's folder or a run's");
    const SafetensorsFile file(path);
    std::printf("%s\n", path.c_str());
    print_file(file);
    print_weights_hash(file);
    return 0;
  }
  if (target == Target::run) {
    const RunCheckpoints checkpoints(path);
    const auto step = checkpoints.store().newest_good(
        [](const std::string& problem) { std::fprintf(stderr, "warning: %s\n", problem.c_str()); });
    path = checkpoints.store().path_of(*step);
  }
  const Checkpoint checkpoint = load_checkpoint(path, {});
  const Provenance made_by = provenance_from(checkpoint.state);
  const std::string state_hash = hash ? hash_of_state(path, checkpoint) : "";
  std::printf("%s\n", path.c_str());
  print_file(checkpoint.weights);
  for (const SafetensorsFile& file : checkpoint.optimizer) {
    std::printf("\n%s\n", file.path().filename().c_str());
    print_tensors(file.views());
  }
  std::printf("\n");
  const Json state = to_json(run_state_from(checkpoint.state));
  for (const auto& [key, value] : state.items()) std::printf("state %s: %s\n", key.c_str(), value.dump().c_str());
  std::printf("run: %s, model %s, data %s, %lld ranks, %s\n", plain(checkpoint.manifest.identity.run).c_str(),
              plain(checkpoint.manifest.identity.model).c_str(), plain(made_by.dataset).c_str(),
              static_cast<long long>(made_by.ranks), plain(made_by.device).c_str());
  print_weights_hash(checkpoint.weights);
  if (hash) std::printf("state_sha256: %s\n", state_hash.c_str());
  return 0;
}

/// Prints "good" or its problems, which are added to `problems`.
void report(const Path& path, const std::vector<std::string>& wrong, std::vector<std::string>& problems,
            const char* remark = "") {
  if (wrong.empty()) std::printf("%s: good%s\n", path.c_str(), remark);
  for (const std::string& line : wrong) std::printf("%s\n", line.c_str());
  problems.insert(problems.end(), wrong.begin(), wrong.end());
}

void verify_file(const Path& path, std::vector<std::string>& problems) {
  std::vector<std::string> wrong;
  bool checksums = true;
  try {
    const SafetensorsFile file(path, SafetensorsFile::Check::header);
    wrong = file.damaged_tensors();
    checksums = file.checksums();
  } catch (const Error& error) {
    wrong = {error.what()};
  }
  report(path, wrong, problems, checksums ? "" : " (it carries no checksums: only its layout was checked)");
}

void verify_checkpoint(const Path& path, std::vector<std::string>& problems) {
  std::vector<std::string> wrong;
  if (const auto step = step_of(path.filename().native())) {
    FileSystem files;
    wrong = Store(files, path.parent_path(), {}).verify(*step);
  } else {
    try {  // a copy under another name
      load_checkpoint(path, {});
    } catch (const Error& error) {
      wrong = {error.what()};
    }
  }
  report(path, wrong, problems);
}

void verify_run(const Path& path, std::vector<std::string>& problems) {
  const RunCheckpoints checkpoints(path);
  const Store& store = checkpoints.store();
  for (const int64_t step : store.list()) report(store.path_of(step), store.verify(step), problems);
  for (const Path& folder : {path, path / "ckpt"})
    for (const std::string& name : list_folder(folder))
      if (name.ends_with(".bin") && !name.starts_with(kTemporaryPrefix)) verify_file(folder / name, problems);
}

int verify(const Words& words) {
  CLI::App app("Checks every byte of weights files and checkpoints against their checksums.",
               "cifar-train ckpt verify");
  std::vector<std::string> paths;
  app.add_option("PATH", paths, "files, checkpoints' folders, or runs' (everything in them)")->required();
  if (!parse(app, words)) return 0;

  std::vector<std::string> problems;
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
      report(path, {error.what()}, problems);
    }
  }
  if (problems.empty()) return 0;
  fail(ExitCode::checkpoint, problems.front(),
       problems.size() > 1 ? str(" (and ", problems.size() - 1, " more problems, listed above)") : "");
}

}  // namespace

int verb_ckpt(const Words& words) {
  static constexpr std::array kMembers = {
      Verb{"ls", "the checkpoints of a run", ls},
      Verb{"inspect", "tensors, metadata and hashes", inspect},
      Verb{"verify", "compare everything with its checksums", verify},
  };
  static constexpr std::array kLater = {"diff", "prune"};
  return run_family({"ckpt", "looks after checkpoints", kMembers, kLater}, words);
}

}  // namespace ct
