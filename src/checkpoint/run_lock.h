// One run per folder at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "checkpoint/holder_file.h"

namespace ct {

inline constexpr std::string_view kLockName = ".lock";
/// The file that takes the place of locks where a file system has none.
inline constexpr std::string_view kHolderName = ".lock-holder";
inline bool is_lock_name(std::string_view name) { return name == kLockName || name == kHolderName; }

/// Does another process use the run in OUT, by what its locks say? Nullopt: one of another host or container may. Takes
/// no lock.
std::optional<bool> is_in_use(const Path& out);

/// Holds OUT/.lock with flock until destroyed; the system releases it when the process dies in any way. Where the file
/// system has no locks, which is said, OUT/.lock-holder keeps other runs out (checkpoint/holder_file.h). Of two runs
/// the file system may give a lock to one alone (hosts that mount it differently): a run with the lock holds
/// .lock-holder too if it is there, and one without respects the lock of a living process of its host. A file .lock
/// that no run wrote is refused.
class RunLock {
 public:
  using Wait = HolderFile::Wait;

  /// Creates OUT. If another process holds the lock: Error(ExitCode::usage) with its pid and host. `files` must outlive
  /// the lock.
  RunLock(FileSystem& files, const Path& out, const Wait& wait = {});
  /// Unless keep() was called, removes the folders that were created for OUT if they are otherwise empty, so a refused
  /// run leaves no folder.
  ~RunLock();
  void keep() { made_.clear(); }
  /// Is the held file still OUT/.lock? Otherwise another run could start there.
  bool in_place() const;
  /// The name of the file that keeps others out.
  std::string_view name() const { return holder_ ? kHolderName : kLockName; }
  /// "pid 123 on host a", who took the folder over; empty: nobody did.
  std::string taken_by() const;

 private:
  RunLock(FileSystem& files, const Path& out, std::vector<Path> made);
  /// Writes who holds the lock into it. A full disk is no error: the lock holds without, and what takes it may be about
  /// to make room.
  void name_holder();
  std::string text_of_lock() const;

  FileSystem& files_;
  Path out_;
  std::vector<Path> made_;  // the deepest first
  File file_;
  bool locked_ = false;
  std::optional<HolderFile> holder_;
};

}  // namespace ct
