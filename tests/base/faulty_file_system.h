// A file system that fails at the n-th operation, and that forgets what was not synced when it crashes.
//
// The model of a crash: of every file, only the bytes at its last fsync are sure, the rest is cut somewhere, and pieces
// written in place may read as zeros; of the changes to folders (create, rename, remove), those since the folder's last
// fsync may be lost from the last backwards.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "base/files.h"

namespace ct {

/// For what a test does besides: real, but without waiting for the disk.
class QuickFileSystem : public FileSystem {
 public:
  int fsync(int) override { return 0; }
};

enum class Fault { none, crash, crash_and_lose, eio, enospc, short_write };
struct Crash {};

class FaultyFileSystem : public FileSystem {
 public:
  /// Operation `at` (from 0) fails; `backups` is an existing folder on the same disk for what may have to come back.
  FaultyFileSystem(Fault fault, int at, const Path& backups, uint32_t seed = 0)
      : fault_(fault), at_(at), backups_(backups), random_(seed) {}
  ~FaultyFileSystem() override {
    for (const Data& file : data_) ::close(file.fd);
  }
  int operations() const { return count_; }

  int open(const Path& path, int flags, mode_t mode) override {
    if (fails()) return -1;
    const bool creates = (flags & O_CREAT) && !exists(path);
    const int fd = FileSystem::open(path, flags, mode);
    if (fd >= 0 && (flags & O_ACCMODE) != O_RDONLY) {
      // A descriptor of our own: a later crash cuts the file whatever its name is by then.
      data_.push_back({::dup(fd), creates || (flags & O_TRUNC) ? 0 : size(fd)});
      index_[fd] = data_.size() - 1;
    }
    if (fd >= 0 && creates) log(path, [](const Path& p) { ::unlink(p.c_str()); });
    if (fd >= 0) paths_[fd] = path;
    return fd;
  }
  ssize_t write(int fd, std::span<const std::byte> bytes) override {
    return write_some(bytes, [&](std::span<const std::byte> some) { return FileSystem::write(fd, some); });
  }
  ssize_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) override {
    return write_some(bytes, [&](std::span<const std::byte> some) {
      if (index_.contains(fd)) data_[index_[fd]].pending.push_back({offset, some.size()});
      return FileSystem::write_at(fd, some, offset);
    });
  }
  int truncate(int fd, uint64_t bytes) override { return fails() ? -1 : FileSystem::truncate(fd, bytes); }
  int fsync(int fd) override {
    if (fails()) return -1;
    // Nothing is really synced (it would only be slow): what would be is remembered.
    if (index_.contains(fd)) {
      data_[index_[fd]].synced = size(fd);
      data_[index_[fd]].pending.clear();
    }
    const Path folder = paths_[fd];
    std::erase_if(changes_, [&](const Change& c) { return c.path.parent_path() == folder; });
    return 0;
  }
  int close(int fd) override {
    if (dead_) return ::close(fd);
    if (count_ == at_ && (fault_ == Fault::crash || fault_ == Fault::crash_and_lose)) {
      // Possibly in a destructor, so nothing is thrown: every later operation fails, the disk stays as it is now.
      ++count_;
      dead_ = true;
      if (fault_ == Fault::crash_and_lose) lose();
      return ::close(fd);
    }
    if (fails()) return ::close(fd), errno = fault_ == Fault::eio ? EIO : ENOSPC, -1;
    index_.erase(fd);
    paths_.erase(fd);
    return FileSystem::close(fd);
  }
  int rename(const Path& from, const Path& to) override {
    if (fails()) return -1;
    const Path backup = save(to);
    if (FileSystem::rename(from, to) != 0) return -1;
    // What was changed inside a renamed folder is found under its new name from now on.
    for (Change& c : changes_) {
      if (c.path.parent_path() == from) c.path = to / c.path.filename();
    }
    log(to, [from, backup](const Path& p) {
      ::rename(p.c_str(), from.c_str());
      if (!backup.empty()) ::rename(backup.c_str(), p.c_str());
    });
    return 0;
  }
  int link(const Path& from, const Path& to) override {
    if (fails()) return -1;
    if (FileSystem::link(from, to) != 0) return -1;
    log(to, [](const Path& p) { ::unlink(p.c_str()); });
    return 0;
  }
  int unlink(const Path& path) override {
    if (fails()) return -1;
    const Path backup = save(path);
    if (FileSystem::unlink(path) != 0) return -1;
    log(path, [backup](const Path& p) { ::rename(backup.c_str(), p.c_str()); });
    return 0;
  }
  int mkdir(const Path& path) override {
    if (fails()) return -1;
    if (FileSystem::mkdir(path) != 0) return -1;
    log(path, [](const Path& p) { ::rmdir(p.c_str()); });
    return 0;
  }
  int rmdir(const Path& path) override {
    if (fails()) return -1;
    if (FileSystem::rmdir(path) != 0) return -1;
    log(path, [](const Path& p) { ::mkdir(p.c_str(), 0777); });
    return 0;
  }

 private:
  struct Piece {
    uint64_t offset;
    size_t bytes;
  };
  struct Data {
    int fd = 0;
    off_t synced = 0;
    std::vector<Piece> pending;  // written in place since then
  };
  struct Change {
    Path path;
    std::function<void(const Path&)> undo;
  };

  static bool exists(const Path& path) { return std::filesystem::exists(std::filesystem::symlink_status(path)); }
  static off_t size(int fd) {
    struct stat info {};
    fstat(fd, &info);
    return info.st_size;
  }
  void log(const Path& path, std::function<void(const Path&)> undo) { changes_.push_back({path, std::move(undo)}); }
  Path save(const Path& path) {
    if (!exists(path) || std::filesystem::is_directory(path)) return {};
    const Path backup = backups_ / std::to_string(saved_++);
    return ::link(path.c_str(), backup.c_str()) == 0 ? backup : Path{};
  }
  template <class Write>
  ssize_t write_some(std::span<const std::byte> bytes, Write write) {
    if (fault_ == Fault::short_write && count_ == at_) {
      ++count_;
      write(bytes.first(bytes.size() / 2));
      full_ = true;  // the rest never fits
      return bytes.size() > 1 ? static_cast<ssize_t>(bytes.size() / 2) : (errno = ENOSPC, -1);
    }
    if (full_) return errno = ENOSPC, -1;
    if (fails()) return -1;
    return write(bytes);
  }
  bool fails() {
    if (dead_) return errno = EIO, true;
    if (count_++ != at_ || fault_ == Fault::none || fault_ == Fault::short_write) return false;
    if (fault_ == Fault::eio) return errno = EIO, true;
    if (fault_ == Fault::enospc) return errno = ENOSPC, true;
    dead_ = true;
    if (fault_ == Fault::crash_and_lose) lose();
    throw Crash{};
  }
  void lose() {
    const size_t lost = random_() % (changes_.size() + 1);
    for (size_t i = 0; i < lost; ++i) {
      changes_.back().undo(changes_.back().path);
      changes_.pop_back();
    }
    for (const Data& file : data_) {
      for (const Piece& piece : file.pending) {
        const std::vector<std::byte> zeros(piece.bytes);
        if (random_() % 2 && ::pwrite(file.fd, zeros.data(), piece.bytes, static_cast<off_t>(piece.offset)) < 0)
          throw Crash{};
      }
      const off_t now = size(file.fd);
      if (now > file.synced && ::ftruncate(file.fd, file.synced + random_() % (now - file.synced)) != 0) throw Crash{};
    }
  }

  Fault fault_;
  int at_, count_ = 0, saved_ = 0;
  bool dead_ = false, full_ = false;
  Path backups_;
  std::mt19937 random_;
  std::map<int, Path> paths_;
  std::map<int, size_t> index_;  // open descriptor -> data_
  std::vector<Data> data_;       // every file written, by a descriptor of our own
  std::vector<Change> changes_;
};

}  // namespace ct
