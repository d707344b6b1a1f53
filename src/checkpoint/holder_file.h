// A lock for file systems without flock: a file that only one process can create. It contains pid, host, the boot and
// container whose pid it is, and a heartbeat: a number that grows for as long as the process lives, and the seconds in
// which it does at the latest.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/files.h"

namespace ct {

/// The name of this process in locks: "pid 123 on host a".
std::string lock_holder();
/// The same with what its pid is of: "pid 123 on host a, pids of B/C".
std::string lock_text();
/// "pid 123 on host a" of such a text.
std::string name_in_lock(const std::string& text);
/// Is that another process of this host, boot and container, and alive?
bool is_of_living_process(const std::string& text);
/// Is that a process of this host, boot and container, and dead?
bool is_of_dead_process(const std::string& text);

class HolderFile {
 public:
  using Seconds = std::chrono::duration<double>;
  struct Wait {
    Seconds heartbeat{30};
    std::function<void(const std::string&)> say = [](const std::string&) {};
    std::function<bool()> give_up = [] { return false; };
    std::string otherwise = "give another --output";  // the last remedy where the folder is in use
  };

  /// Creates `path`. The file of a dead process of this host is replaced at once, that of another host, of another
  /// container or of before a reboot after twice its owner's heartbeat (`wait`'s, if it says none) without a sign of
  /// life, which is said; Error(stopped) if give_up() returns true meanwhile. Any other: Error(ExitCode::usage) with
  /// pid, host and remedy. `files` must outlive this.
  HolderFile(FileSystem& files, const Path& path, const Wait& wait);
  /// Removes the file.
  ~HolderFile();
  HolderFile(const HolderFile&) = delete;
  HolderFile& operator=(const HolderFile&) = delete;
  /// Is the file still there, and this process's?
  bool in_place() const;
  /// "pid 123 on host a": the process whose file is there now; empty: nobody's.
  std::string holder() const;

 private:
  bool create();
  void take(const Wait& wait);
  void remove_stale(const std::string& there);
  bool gives_a_sign_of_life(const std::string& before, Seconds patience, const std::function<bool()>& give_up);
  std::optional<std::string> text() const;
  void write(int64_t beat);
  void beat();

  FileSystem& files_;
  const Path path_;
  const std::string own_;  // what the file says before the heartbeat, also if the host's name changes
  const Seconds heartbeat_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread heart_;
};

}  // namespace ct
