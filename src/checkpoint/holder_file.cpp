#include "checkpoint/holder_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"
#include "base/peer_process.h"

namespace ct {
namespace {

constexpr std::string_view kPids = ", pids of ", kBeat = ", heartbeat ", kEvery = " every ";
constexpr int kBeats = 4;    // in the time of a heartbeat: a slow disk must not make a process seem dead
constexpr int kSilence = 2;  // heartbeats without a sign of life
constexpr HolderFile::Seconds kLook{0.1};
constexpr off_t kLongest = 1024;  // bytes

/// All but the heartbeat.
std::string owner_in(const std::string& text) { return text.substr(0, text.find(kBeat)); }

/// Do its pids mean the same processes here? Not those of another host, of another container, or of before a reboot.
bool is_near(const std::string& text) {
  return owner_in(text).ends_with(str(" on host ", host_name(), kPids, pid_space()));
}

/// Of "pid 123 on host a".
std::optional<int> pid_in(const std::string& text) {
  int pid = 0;
  return std::sscanf(text.c_str(), "pid %d ", &pid) == 1 ? std::optional(pid) : std::nullopt;
}

constexpr double kLongestHeartbeat = 1e6;  // seconds, of a configuration

/// Its owner's heartbeat; a run that has just begun, and a power failure, leave none.
std::optional<HolderFile::Seconds> heartbeat_in(const std::string& text) {
  const size_t beat = text.find(kBeat), every = text.find(kEvery, std::min(beat, text.size()));
  double seconds = 0;
  const bool says = every != text.npos && std::sscanf(text.c_str() + every + kEvery.size(), "%lf s", &seconds) == 1;
  return says && seconds > 0 && seconds <= kLongestHeartbeat ? std::optional(HolderFile::Seconds(seconds))
                                                             : std::nullopt;
}

/// Also if nobody has waited for it: in a container without an init process, nobody ever does.
bool is_dead(int pid) { return PeerProcess(pid).dead(); }

}  // namespace

std::string lock_holder() { return str("pid ", getpid(), " on host ", host_name()); }

std::string lock_text() { return str(lock_holder(), kPids, pid_space()); }

std::string name_in_lock(const std::string& text) { return text.substr(0, text.find(", ")); }

bool is_of_living_process(const std::string& text) {
  const auto pid = pid_in(text);
  return is_near(text) && pid && *pid != getpid() && !is_dead(*pid);
}

bool is_of_dead_process(const std::string& text) {
  const auto pid = pid_in(text);
  return is_near(text) && pid && is_dead(*pid);
}

HolderFile::HolderFile(FileSystem& files, const Path& path, const Wait& wait)
    : files_(files), path_(path), own_(lock_text()), heartbeat_(wait.heartbeat) {
  take(wait);
  heart_ = std::thread([this] { beat(); });
}

HolderFile::~HolderFile() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  heart_.join();
  if (in_place()) uninterrupted([&] { return files_.unlink(path_); });
}

bool HolderFile::in_place() const {
  try {
    std::optional<std::string> there = text();
    if (!there) {  // a process that takes it for stale gives it back: see remove_stale()
      std::this_thread::sleep_for(kLook);
      there = text();
    }
    return owner_in(there.value_or("")) == own_;
  } catch (const Error&) {
    return false;
  }
}

std::string HolderFile::holder() const {
  try {
    return name_in_lock(text().value_or(""));
  } catch (const Error&) {
    return "";
  }
}

void HolderFile::take(const Wait& wait) {
  const auto is_no_runs = [this] {
    fail(ExitCode::usage, in_quotes(path_.native()), " is no run's: remove it, or give another --output");
  };
  while (!create()) {
    struct stat entry {};
    const bool found = uninterrupted([&] { return files_.entry_status(path_, entry); }) == 0;
    if (found && (!S_ISREG(entry.st_mode) || entry.st_size > kLongest)) is_no_runs();
    const std::optional<std::string> there = text();
    if (!there) continue;
    // A run that has just begun leaves an empty file, and a power failure may leave zeros.
    if (const size_t begin = there->find_first_not_of('\0'); begin != there->npos && !there->starts_with("pid "))
      is_no_runs();
    if (!is_of_dead_process(*there)) {
      const std::string whose = there->empty() ? "another run" : in_quotes(name_in_lock(*there));
      const bool near = is_near(*there);
      const Seconds patience = kSilence * heartbeat_in(*there).value_or(heartbeat_);
      if (!near)
        wait.say(str(in_quotes(path_.native()), " is of ", whose, ": waiting up to ", patience.count(),
                     " s for a sign of life; if it is no run, stop this one and remove the file"));
      if (near || gives_a_sign_of_life(*there, patience, wait.give_up))
        fail(ExitCode::usage, "output folder ", in_quotes(path_.parent_path().native()), " is in use by ", whose,
             ": wait for it, stop it or ", wait.otherwise, "; if it is no run, remove ", in_quotes(path_.native()));
    }
    remove_stale(*there);
  }
}

/// Removes the file if it still says `there`. Of two processes that do so at a time, the slower one finds the file of
/// the run that was quicker, so it looks at what it has taken before it removes it.
void HolderFile::remove_stale(const std::string& there) {
  if (text() != there) return;
  const Path taken =
      path_.parent_path() / str(temporary_of(path_.filename()).native(), "-", host_name(), "-", getpid());
  if (uninterrupted([&] { return files_.rename(path_, taken); }) != 0) {
    if (errno == ENOENT) return;
    fail_io("rename", path_, errno);
  }
  bool is_stale = false;
  try {
    is_stale = read_file(taken, kLongest, MappedFile::Links::refuse) == there;
  } catch (const Error&) {  // text() says why
  }
  if (!is_stale && uninterrupted([&] { return files_.link(taken, path_); }) != 0 && errno != EEXIST)
    return rename_file(files_, taken, path_);  // a file system without links
  remove_file(files_, taken);
}

bool HolderFile::create() {
  const int fd = uninterrupted([&] { return files_.open(path_, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (fd < 0 && errno == EEXIST) return false;
  if (fd < 0) fail_io("create", path_, errno);
  files_.close(fd);
  write(0);
  return true;
}

/// Does it change in time? A file that is removed meanwhile does not count.
bool HolderFile::gives_a_sign_of_life(const std::string& before, Seconds patience,
                                      const std::function<bool()>& give_up) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < patience) {
    std::this_thread::sleep_for(std::min(kLook, patience / (kSilence * kBeats)));
    if (give_up())
      fail(ExitCode::stopped, "stopped on request while ", in_quotes(path_.native()), " of ",
           in_quotes(name_in_lock(before)), " kept the folder: run the same command again");
    const std::optional<std::string> now = text();
    if (now != before) return now.has_value();
  }
  return false;
}

/// What the file contains; nothing: it is not there. It is opened anew each time, so that the client of a network file
/// system asks the server.
std::optional<std::string> HolderFile::text() const {
  if (kind_of_entry(path_) == PathKind::nothing) return std::nullopt;
  return read_file(path_, kLongest, MappedFile::Links::refuse);
}

void HolderFile::write(int64_t beat) {
  File file(files_, path_, O_WRONLY | O_NOFOLLOW);
  file.write(str(own_, kBeat, beat, kEvery, heartbeat_.count(), " s\n"));  // never shorter than the one before
  file.sync();
  file.close();
}

void HolderFile::beat() {
  std::unique_lock lock(mutex_);
  for (int64_t n = 1; !wake_.wait_for(lock, heartbeat_ / kBeats, [this] { return ends_; }); ++n) {
    try {
      if (in_place()) write(n);
    } catch (const Error&) {  // whoever saves asks in_place()
    }
  }
}

}  // namespace ct
