#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "checkpoint/store.h"

namespace ct {
namespace {

constexpr std::string_view kLockName = ".lock";
constexpr std::string_view kMetrics = "metrics.jsonl";
constexpr std::array<std::string_view, 5> kRunFiles = {"config.yaml", "metrics.csv", "last.bin", "best.bin", kMetrics};

bool is_run_file(const std::string& name) {
  std::string_view bare = name;
  if (bare.starts_with(kTemporaryPrefix)) bare.remove_prefix(kTemporaryPrefix.size());
  return std::find(kRunFiles.begin(), kRunFiles.end(), bare) != kRunFiles.end();
}

/// A real folder, not a link to one: what a link leads to is not ours to delete.
bool is_folder(const Path& path) {
  std::error_code error;
  return std::filesystem::is_directory(std::filesystem::symlink_status(path, error));
}

}  // namespace

RunLock::RunLock(FileSystem& files, const Path& out)
    : file_([&] {
        make_folders(files, out);
        return File(files, out / kLockName, O_RDWR | O_CREAT | O_NOFOLLOW);
      }()) {
  int result;
  do {
    result = flock(file_.fd(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    char text[300] = {};
    const ssize_t n = pread(file_.fd(), text, sizeof text - 1, 0);
    std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " is in use by ",
         holder.empty() ? "another run" : in_quotes(holder), ": wait for it, stop it or give another --output");
  }
  if (result != 0) {
    warning_ = str("output folder ", in_quotes(out.native()), " cannot be locked (", std::strerror(errno),
                   "): take care that no second run uses it");
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  file_.truncate(0);
  file_.write(str("pid ", getpid(), " on host ", host, "\n"));
}

void reset_run(FileSystem& files, const Path& out) {
  const auto names = list_folder(out);
  const Path ckpt = out / "ckpt", tb = out / "tb";
  const auto checkpoints = is_folder(ckpt) ? list_folder(ckpt) : std::vector<std::string>{};
  const auto ours = [](const std::string& name) { return step_of(name) || is_scratch_name(name); };
  if (std::all_of(names.begin(), names.end(), [](const std::string& n) { return n == kLockName; })) return;
  if (!std::filesystem::exists(out / kMetrics) && std::none_of(checkpoints.begin(), checkpoints.end(), ours)) {
    fail(ExitCode::usage, "--reset: ", in_quotes(out.native()),
         " does not look like a run (no metrics.jsonl, no ckpt/step-...): empty it by hand or give another --output");
  }
  for (const std::string& name : checkpoints) {
    if (!ours(name) || !is_folder(ckpt / name)) continue;
    remove_known(files, ckpt / name, [](const std::string& n) {
      return is_part_name(n) || (n.starts_with(kTemporaryPrefix) && is_part_name(n.substr(kTemporaryPrefix.size())));
    });
  }
  if (is_folder(ckpt)) remove_known(files, ckpt, [](const std::string& n) { return saved_best_step(n).has_value(); });
  if (is_folder(tb)) {
    remove_known(files, tb, [](const std::string& n) { return n.starts_with("events.out.tfevents."); });
  }
  // metrics.jsonl last: until then a reset that was killed can be repeated.
  for (const std::string& name : names) {
    if (is_run_file(name) && name != kMetrics && !is_folder(out / name)) remove_file(files, out / name);
  }
  remove_file(files, out / kMetrics);
}

}  // namespace ct
