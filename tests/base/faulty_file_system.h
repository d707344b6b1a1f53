// A file system that fails at the n-th operation, and that forgets what was not synced when it crashes.
//
// The model of a crash: of every file, only the bytes at its last fsync are sure; the rest is cut somewhere, and pieces
// written in place may read as zeros. Of each folder, only the entries at its last fsync are sure; the last changes
// since then (create, rename, link, remove) may be lost, in each folder for itself. Whatever lies in a folder that is
// lost is lost with it.
//
// Thread-safe: the threads of a process may be its ranks.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ct {

/// For what a test does besides: real, but without waiting for the disk.
class QuickFileSystem : public FileSystem {
 public:
  int fsync(int) override { return 0; }
};

/// crash: the process ends, the disk keeps all; power_loss: as described above. partial: half of a read or write is
/// done, which is no failure. full: half of a write is done, and from then on nothing fits. lasting: ESTALE for every
/// operation of the n-th one's kind from it on, gone: for every operation, until a run looks at its lock, with which
/// each of its saves begins. no_lock, no_lock_service and no_lock_call: ENOTSUP, ENOLCK and ENOSYS, for every lock from
/// the n-th on. The others are errno's of one operation; the mapping that gets EIO is one whose bytes cannot be read.
enum class Fault {
  none,
  crash,
  power_loss,
  eio,
  enospc,
  edquot,
  estale,
  eintr,
  partial,
  full,
  lasting,
  gone,
  no_lock,
  no_lock_service,
  no_lock_call
};
inline constexpr std::array<std::string_view, 15> kFaultNames = {
    "none",    "crash", "power_loss", "eio",  "enospc",  "edquot",          "estale",      "eintr",
    "partial", "full",  "lasting",    "gone", "no_lock", "no_lock_service", "no_lock_call"};
struct Crash {};

class FaultyFileSystem : public FileSystem {
 public:
  /// Of the operations that can have this fault, number `at` (from 0) has it. `backups` is an existing folder on the
  /// same disk for what may have to come back. `crash` ends the process, or throws.
  FaultyFileSystem(
      Fault fault, int at, const Path& backups, uint32_t seed = 0, std::function<void()> crash = [] { throw Crash{}; })
      : fault_(fault), at_(at), backups_(backups), random_(seed), crash_(std::move(crash)) {}
  ~FaultyFileSystem() override {
    for (const Data& file : data_) ::close(file.fd);
  }
  /// The operations so far that can have the fault, or any fault.
  int operations() const { return operations(fault_); }
  int operations(Fault fault) const {
    int count = 0;
    for (int op = 0; op <= static_cast<int>(Op::list); ++op)
      if (can_have(fault, static_cast<Op>(op))) count += counts_[op];
    return count;
  }
  /// "rename /a/b"; empty: the fault has not come yet.
  const std::string& failed() const { return failed_; }
  /// The power fails now, unless it did before.
  void lose_power() {
    const std::lock_guard lock(mutex_);
    if (!dead_) lose();
    dead_ = true;
  }

  int open(const Path& path, int flags, mode_t mode) override {
    const std::lock_guard lock(mutex_);
    const bool creates = (flags & O_CREAT) && !exists(path);
    if (fails(creates ? Op::create : Op::open, path)) return -1;
    const int fd = ::open(path.c_str(), flags, mode);
    if (fd >= 0 && (flags & O_ACCMODE) != O_RDONLY) index_[fd] = data_of(fd, creates || (flags & O_TRUNC));
    if (fd >= 0 && creates) log(path, [](const Path& p) { ::unlink(p.c_str()); });
    if (fd >= 0) paths_[fd] = path;
    return fd;
  }
  ssize_t read(int fd, std::span<std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::read, paths_[fd])) return -1;
    return ::read(fd, bytes.data(), part(bytes.size()));
  }
  ssize_t read_at(int fd, std::span<std::byte> bytes, uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::read, paths_[fd])) return -1;
    return ::pread(fd, bytes.data(), part(bytes.size()), static_cast<off_t>(offset));
  }
  ssize_t write(int fd, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::write, paths_[fd])) return -1;
    return ::write(fd, bytes.data(), part(bytes.size()));
  }
  ssize_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::write, paths_[fd])) return -1;
    const size_t some = part(bytes.size());
    if (index_.contains(fd)) data_[index_[fd]].pending.push_back({offset, some});
    return ::pwrite(fd, bytes.data(), some, static_cast<off_t>(offset));
  }
  void* map(int fd, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const bool bad = fails(Op::map, paths_[fd]);
    if (bad && errno != EIO) return nullptr;
    const int from = bad ? unreadable_from_the_middle(fd, bytes) : fd;
    void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, from, 0);
    if (bad) ::close(from);
    return data == MAP_FAILED ? nullptr : data;
  }
  int truncate(int fd, uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    return fails(Op::truncate, paths_[fd]) ? -1 : ::ftruncate(fd, static_cast<off_t>(bytes));
  }
  int fsync(int fd) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::fsync, paths_[fd])) return -1;
    // Nothing is really synced (it would only be slow): what would be is remembered.
    if (index_.contains(fd)) {
      data_[index_[fd]].synced = size(fd);
      data_[index_[fd]].pending.clear();
    }
    const Path folder = absolute(paths_[fd]);
    std::erase_if(changes_, [&](const Change& c) { return c.path.parent_path() == folder; });
    return 0;
  }
  int lock(int fd) override {
    const std::lock_guard lock(mutex_);
    return fails(Op::lock, paths_[fd]) ? -1 : ::flock(fd, LOCK_EX | LOCK_NB);
  }
  int close(int fd) override {
    const std::lock_guard lock(mutex_);
    const bool bad = !dead_ && fails(Op::close, paths_[fd]);
    const int error = errno;
    index_.erase(fd);
    paths_.erase(fd);
    const int result = ::close(fd);
    if (!bad) return result;
    errno = error;
    return -1;
  }
  int rename(const Path& from, const Path& to) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::rename, to)) return -1;
    const Path backup = save(to), before = absolute(from), after = absolute(to);
    if (::rename(from.c_str(), to.c_str()) != 0) return -1;
    move(before, after);
    log(to, [this, before, backup](const Path& p) {
      ::rename(p.c_str(), before.c_str());
      move(p, before);
      if (!backup.empty()) ::rename(backup.c_str(), p.c_str());
    });
    return 0;
  }
  int link(const Path& from, const Path& to) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::link, to)) return -1;
    if (::link(from.c_str(), to.c_str()) != 0) return -1;
    log(to, [](const Path& p) { ::unlink(p.c_str()); });
    return 0;
  }
  int unlink(const Path& path) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::unlink, path)) return -1;
    const Path backup = save(path);
    if (::unlink(path.c_str()) != 0) return -1;
    log(path, [backup](const Path& p) { ::rename(backup.c_str(), p.c_str()); });
    return 0;
  }
  int mkdir(const Path& path) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::mkdir, path)) return -1;
    if (::mkdir(path.c_str(), 0777) != 0) return -1;
    log(path, [](const Path& p) { std::filesystem::remove_all(p); });
    return 0;
  }
  int rmdir(const Path& path) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::rmdir, path)) return -1;
    if (::rmdir(path.c_str()) != 0) return -1;
    log(path, [inside = take_changes_in(absolute(path))](const Path& p) {
      ::mkdir(p.c_str(), 0777);
      for (size_t i = inside.size(); i-- > 0;) inside[i].undo(p / inside[i].path.filename());
    });
    return 0;
  }
  int status(const Path& path, struct stat& info) override {
    const std::lock_guard lock(mutex_);
    return fails(Op::status, path) ? -1 : ::stat(path.c_str(), &info);
  }
  int entry_status(const Path& path, struct stat& info) override {
    const std::lock_guard lock(mutex_);
    return fails(Op::status, path) ? -1 : ::lstat(path.c_str(), &info);
  }
  int list(const Path& folder, std::vector<std::string>& names) override {
    const std::lock_guard lock(mutex_);
    if (fails(Op::list, folder)) return -1;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      names.push_back(entry.path().filename().native());
    errno = error.value();
    return error ? -1 : 0;
  }

 private:
  enum class Op {
    open,
    create,
    read,
    write,
    map,
    truncate,
    fsync,
    lock,
    close,
    rename,
    link,
    unlink,
    mkdir,
    rmdir,
    status,
    list
  };
  static constexpr const char* kOps[] = {"open",  "create", "read", "write",  "map",   "truncate", "fsync",  "lock",
                                         "close", "rename", "link", "unlink", "mkdir", "rmdir",    "status", "list"};

  static bool can_have(Fault fault, Op op) {
    const auto is_one_of = [op](std::initializer_list<Op> ops) { return std::ranges::find(ops, op) != ops.end(); };
    switch (fault) {
      case Fault::none:
      case Fault::eio:
      case Fault::estale:
      case Fault::lasting:
      case Fault::gone:
        return true;
      case Fault::crash:
      case Fault::power_loss:  // at what changes nothing, they are those at the next operation
        return is_one_of(
            {Op::create, Op::write, Op::truncate, Op::fsync, Op::rename, Op::link, Op::unlink, Op::mkdir, Op::rmdir});
      case Fault::enospc:
      case Fault::edquot:
        return is_one_of({Op::create, Op::write, Op::truncate, Op::fsync, Op::close, Op::rename, Op::link, Op::mkdir});
      case Fault::eintr:
        return op != Op::map;
      case Fault::partial:
        return is_one_of({Op::read, Op::write});
      case Fault::full:
        return op == Op::write;
      case Fault::no_lock:
      case Fault::no_lock_service:
      case Fault::no_lock_call:
        return op == Op::lock;
    }
    return false;
  }

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
  /// The one name of a path, also where it leads from a held folder (base/held_folder.h).
  static Path absolute(const Path& path) {
    constexpr std::string_view kHeld = "/proc/self/fd/";
    Path all = std::filesystem::absolute(path).lexically_normal();
    if (const std::string text = all; text.starts_with(kHeld)) {
      const size_t end = text.find('/', kHeld.size());
      all = std::filesystem::read_symlink(text.substr(0, end));
      if (end != std::string::npos) all /= text.substr(end + 1);
    }
    return all.has_filename() ? all : all.parent_path();
  }
  static off_t size(int fd) {
    struct stat info {};
    fstat(fd, &info);
    return info.st_size;
  }
  static std::pair<dev_t, ino_t> identity(int fd) {
    struct stat info {};
    fstat(fd, &info);
    return {info.st_dev, info.st_ino};
  }
  /// The place in data_ of an open file, which may be open more than once.
  size_t data_of(int fd, bool is_empty) {
    for (size_t i = 0; i < data_.size(); ++i)
      if (identity(data_[i].fd) == identity(fd)) return i;
    // A descriptor of our own: a later crash cuts the file whatever its name is by then.
    data_.push_back({::dup(fd), is_empty ? 0 : size(fd)});
    return data_.size() - 1;
  }
  static int unreadable_from_the_middle(int fd, size_t bytes) {
    const int memory = memfd_create("unreadable", MFD_CLOEXEC);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<char> start(bytes / 2 / page * page);
    if (::pread(fd, start.data(), start.size(), 0) < 0 || ::write(memory, start.data(), start.size()) < 0)
      throw Crash{};
    return memory;
  }
  void log(const Path& path, std::function<void(const Path&)> undo) {
    changes_.push_back({absolute(path), std::move(undo)});
  }
  /// What was changed inside a renamed folder is found under its new name from now on.
  void move(const Path& from, const Path& to) {
    for (Change& c : changes_)
      if (c.path.parent_path() == from) c.path = to / c.path.filename();
  }
  /// What was removed from a removed folder comes back with that folder, never in another one of its name.
  std::vector<Change> take_changes_in(const Path& folder) {
    const auto others = std::stable_partition(changes_.begin(), changes_.end(),
                                              [&](const Change& c) { return c.path.parent_path() != folder; });
    std::vector<Change> inside(std::make_move_iterator(others), std::make_move_iterator(changes_.end()));
    changes_.erase(others, changes_.end());
    return inside;
  }
  Path save(const Path& path) {
    if (!exists(path) || std::filesystem::is_directory(path)) return {};
    const Path backup = backups_ / std::to_string(saved_++);
    return ::link(path.c_str(), backup.c_str()) == 0 ? backup : Path{};
  }

  /// Does the operation fail, with errno? Throws, or does not return, for a crash.
  bool fails(Op op, const Path& path) {
    if (dead_) return errno = EIO, true;
    is_partial_ = false;
    if (fault_ == Fault::full && !failed_.empty() && (op == Op::write || op == Op::create)) return errno = ENOSPC, true;
    const int number = operations();
    ++counts_[static_cast<int>(op)];
    if (!can_have(fault_, op)) return false;
    const bool here = number == at_;
    if (!here && !lasts(op, number, path)) return false;
    if (here) failed_ = str(kOps[static_cast<int>(op)], " ", path.native()), failed_op_ = op;
    switch (fault_) {
      case Fault::none:
        return false;
      case Fault::crash:
      case Fault::power_loss:
        if (fault_ == Fault::power_loss) lose();
        dead_ = true;
        crash_();
        return errno = EIO, true;
      case Fault::partial:
      case Fault::full:
        is_partial_ = true;
        return false;
      case Fault::eio:
        return errno = EIO, true;
      case Fault::enospc:
        return errno = ENOSPC, true;
      case Fault::edquot:
        return errno = EDQUOT, true;
      case Fault::estale:
      case Fault::lasting:
      case Fault::gone:
        return errno = ESTALE, true;
      case Fault::eintr:
        return errno = EINTR, true;
      case Fault::no_lock:
        return errno = ENOTSUP, true;
      case Fault::no_lock_service:
        return errno = ENOLCK, true;
      case Fault::no_lock_call:
        return errno = ENOSYS, true;
    }
    return false;
  }
  /// Has the operation the fault of an earlier one?
  bool lasts(Op op, int number, const Path& path) {
    if (number < at_) return false;
    if (op == Op::status && path.filename() == ".lock") over_ = true;
    return fault_ >= Fault::no_lock ||
           (!over_ && (fault_ == Fault::gone || (fault_ == Fault::lasting && op == failed_op_)));
  }
  /// The bytes of a transfer that are done: a half if this is the one, but at least one.
  size_t part(size_t bytes) const { return is_partial_ ? (bytes + 1) / 2 : bytes; }

  void lose() {
    std::map<Path, size_t> changed;  // by folder
    for (const Change& c : changes_) ++changed[c.path.parent_path()];
    for (auto& [folder, changes] : changed) changes = random_() % (changes + 1);  // so many of its last ones are lost
    std::vector<bool> is_lost(changes_.size());
    for (size_t i = changes_.size(); i-- > 0;) {
      size_t& left = changed[changes_[i].path.parent_path()];
      if (left > 0) --left, is_lost[i] = true;
    }
    for (size_t i = changes_.size(); i-- > 0;)
      if (is_lost[i]) changes_[i].undo(Path(changes_[i].path));
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

  const Fault fault_;
  const int at_;
  const Path backups_;
  std::mt19937 random_;
  const std::function<void()> crash_;
  std::mutex mutex_;
  int counts_[std::size(kOps)] = {};
  int saved_ = 0;
  bool dead_ = false, is_partial_ = false, over_ = false;
  std::string failed_;
  Op failed_op_ = Op::open;
  std::map<int, Path> paths_;
  std::map<int, size_t> index_;  // open descriptor -> data_
  std::vector<Data> data_;       // every file written, by a descriptor of our own
  std::vector<Change> changes_;
};

}  // namespace ct
