// The definitions of base/file_system.cpp in the program cifar-train-faulty: every file operation of the process goes
// through one FaultyFileSystem.
//
// CIFAR_TRAIN_FAULT: "FAULT AT SEED FOLDER", with a name of kFaultNames. FOLDER, on the disk of the files, gets a file
// "report": the operation that had the fault (empty: none had), and for each fault how many could have had it. A crash
// is exit code 99; power_loss at an operation that does not come is one after the program's end.
#include "base/file_system.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/faulty_file_system.h"

namespace ct {
namespace {

constexpr int kCrashed = 99;

struct Wanted {
  Fault fault = Fault::none;
  int at = 0;
  uint32_t seed = 0;
  Path folder;
};

Wanted wanted() {
  Wanted w;
  const char* const text = std::getenv("CIFAR_TRAIN_FAULT");
  if (text == nullptr) return w;
  std::istringstream words(text);
  std::string name;
  words >> name >> w.at >> w.seed >> w.folder;
  const auto known = std::ranges::find(kFaultNames, name);
  if (!words || known == kFaultNames.end()) std::abort();
  w.fault = static_cast<Fault>(known - kFaultNames.begin());
  return w;
}

class Disk {
 public:
  Disk() = default;
  ~Disk() {
    if (wanted_.fault == Fault::power_loss) files_.lose_power();
    report();
  }
  FileSystem& files() { return files_; }

 private:
  void report() const {
    if (wanted_.folder.empty()) return;
    std::ofstream text(wanted_.folder / "report");
    text << files_.failed() << "\n";
    for (size_t i = 0; i < kFaultNames.size(); ++i)
      text << kFaultNames[i] << " " << files_.operations(static_cast<Fault>(i)) << "\n";
  }

  const Wanted wanted_ = wanted();
  FaultyFileSystem files_{wanted_.fault, wanted_.at, wanted_.folder, wanted_.seed, [this] {
                            report();
                            ::_exit(kCrashed);
                          }};
};

FileSystem& disk() {
  static Disk disk;
  return disk.files();
}

}  // namespace

int FileSystem::open(const Path& path, int flags, mode_t mode) { return disk().open(path, flags, mode); }
ssize_t FileSystem::read(int fd, std::span<std::byte> bytes) { return disk().read(fd, bytes); }
ssize_t FileSystem::read_at(int fd, std::span<std::byte> bytes, uint64_t offset) {
  return disk().read_at(fd, bytes, offset);
}
ssize_t FileSystem::write(int fd, std::span<const std::byte> bytes) { return disk().write(fd, bytes); }
ssize_t FileSystem::write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  return disk().write_at(fd, bytes, offset);
}
void* FileSystem::map(int fd, size_t bytes) { return disk().map(fd, bytes); }
int FileSystem::truncate(int fd, uint64_t bytes) { return disk().truncate(fd, bytes); }
int FileSystem::fsync(int fd) { return disk().fsync(fd); }
int FileSystem::lock(int fd) { return disk().lock(fd); }
int FileSystem::close(int fd) { return disk().close(fd); }
int FileSystem::rename(const Path& from, const Path& to) { return disk().rename(from, to); }
int FileSystem::link(const Path& from, const Path& to) { return disk().link(from, to); }
int FileSystem::unlink(const Path& path) { return disk().unlink(path); }
int FileSystem::mkdir(const Path& path) { return disk().mkdir(path); }
int FileSystem::rmdir(const Path& path) { return disk().rmdir(path); }
int FileSystem::status(const Path& path, struct stat& info) { return disk().status(path, info); }
int FileSystem::entry_status(const Path& path, struct stat& info) { return disk().entry_status(path, info); }
int FileSystem::list(const Path& folder, std::vector<std::string>& names) { return disk().list(folder, names); }

}  // namespace ct
