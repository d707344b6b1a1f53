#include "data/image_folder/image_folder_set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// A file open for reading; a pipe or device in its place does not make the program wait.
class Reading {
 public:
  explicit Reading(const fs::path& path)
      : path_(path), fd_(uninterrupted([&] { return files_.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); })) {
    if (fd_ >= 0) return;
    if (errno == ENOENT) fail(ExitCode::data, "no longer exists");
    if (errno == EMFILE || errno == ENFILE)
      fail(ExitCode::io, path.string(), ": too many open files; raise the limit (ulimit -n)");
    fail_with(errno, "it cannot be opened: ");
  }
  ~Reading() { files_.close(fd_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  int64_t bytes() const {
    struct stat info {};
    if (fstat(fd_, &info) != 0) fail_with(errno, "it cannot be read: ");
    return S_ISREG(info.st_mode) ? info.st_size : -1;
  }

  /// As many as `to` holds, or those that there are.
  size_t read(std::span<std::byte> to) {
    size_t done = 0;
    while (done < to.size()) {
      const ssize_t n = uninterrupted([&] { return files_.read(fd_, to.subspan(done)); });
      if (n < 0) fail_with(errno, "it cannot be read: ");
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  /// A picture that the system cannot read is not damaged.
  [[noreturn]] void fail_with(int error, std::string_view what) const {
    if (is_of_system(error)) fail_io("read", path_, error, ExitCode::data);
    fail(ExitCode::data, what, std::strerror(error));
  }

  FileSystem files_;
  const fs::path path_;
  int fd_;
};

/// "left out: 2 hidden files or folders, such as '.DS_Store'; ..."; empty: nothing is.
std::string note_of(const AllLeftOut& all) {
  std::string note;
  const auto add = [&](const LeftOut& left_out, const char* one, const char* what) {
    if (left_out.count > 0)
      note += str(note.empty() ? "left out: " : "; ", counted(left_out.count, one), what, ", such as ",
                  in_quotes(left_out.first.native()));
  };
  add(all.loose, "picture", " in no folder of a class");
  add(all.unnamed, "file", " without the name of a picture (.jpg, .png, ...)");
  add(all.hidden, "hidden name", "");
  return note;
}

}  // namespace

ImageFolderSet::ImageFolderSet(fs::path folder, const ImageFolderOptions& options)
    : PictureSet(std::string(kImageFolderName), options.pictures, options.on_corrupt),
      folder_(std::move(folder)),
      listing_(folder_, class_names_ = options.classes.empty() ? class_folders(folder_) : options.classes,
               {.on_corrupt = options.on_corrupt,
                .may_lack_classes = !options.classes.empty(),
                .threads = options.threads}) {
  labels_ = listing_.take_labels();
  if (std::string note = note_of(listing_.left_out()); !note.empty()) notes_.push_back(std::move(note));
}

uint32_t ImageFolderSet::fingerprint() const {
  uint32_t crc = 0;
  const auto add = [&](std::span<const std::byte> bytes) { crc = crc32c(bytes, crc); };
  for (const std::string& name : class_names_) add(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  for (int64_t i = 0; i < count(); ++i) {
    const std::string_view name = listing_.name(i);
    const std::array<uint32_t, 2> numbers = {static_cast<uint32_t>(label(i)), listing_.bytes(i)};
    add(std::as_bytes(std::span(name)));
    add(std::as_bytes(std::span(numbers)));
  }
  return crc;
}

std::span<const std::byte> ImageFolderSet::bytes(int64_t i, std::vector<std::byte>& scratch) const {
  const int64_t before = listing_.bytes(i);
  if (const std::string problem = before == 0 ? problem_of_file(path(i)) : ""; !problem.empty())
    fail(ExitCode::data, problem);
  Reading file(path(i));
  const int64_t now = file.bytes();
  if (now != before)
    fail(ExitCode::data, "changed during the run: ", now < 0 ? "no longer a file" : str(now, " bytes"), ", it had ",
         before);
  scratch.resize(static_cast<size_t>(before));
  if (file.read(scratch) != scratch.size()) fail(ExitCode::data, "truncated while it was read");
  return scratch;
}

bool ImageFolderSet::is_as_it_was(int64_t i) const {
  std::error_code error;
  const int64_t before = listing_.bytes(i);
  return before == 0 || (fs::file_size(path(i), error) == static_cast<uint64_t>(before) && !error);
}

fs::path ImageFolderSet::path(int64_t i) const {
  return folder_ / class_names_[static_cast<size_t>(label(i))] / listing_.name(i);
}

}  // namespace ct
