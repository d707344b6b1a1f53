#include "data/image_folder/listing.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "base/in_order.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/folder_names.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// A folder held open while its entries are read.
class OpenFolder {
 public:
  explicit OpenFolder(const fs::path& path) : folder_(opendir(path.c_str())) {
    if (folder_ == nullptr) fail_io("open", path, errno, ExitCode::data);
  }
  ~OpenFolder() { closedir(folder_); }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  int fd() const { return dirfd(folder_); }
  /// Names but for "." and "..", with what the file system says they are.
  std::vector<std::pair<std::string, unsigned char>> entries(const fs::path& path) {
    std::vector<std::pair<std::string, unsigned char>> all;
    for (;;) {
      errno = 0;
      const dirent* const entry = readdir(folder_);
      if (entry == nullptr && errno != 0) fail_io("list", path, errno, ExitCode::data);
      if (entry == nullptr) return all;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") all.emplace_back(name, entry->d_type);
    }
  }

 private:
  DIR* folder_;
};

/// Is this entry a folder, or a link to one?
bool leads_to_folder(const OpenFolder& folder, const std::string& name, unsigned char type) {
  if (type == DT_DIR || type == DT_REG) return type == DT_DIR;
  struct stat info {};
  return fstatat(folder.fd(), name.c_str(), &info, 0) == 0 && S_ISDIR(info.st_mode);
}

/// What one folder holds, in the order of names once it is sorted.
struct FolderFiles {
  std::string below;                                    // its path, counted from the class's folder
  std::vector<std::pair<std::string, uint32_t>> files;  // with their bytes
};

/// The same for what stat() said, or failed with.
std::string problem_of_status(int error, const struct stat& info) {
  if (error != 0) return error == ENOENT ? "a link to nothing" : std::strerror(error);
  if (!S_ISREG(info.st_mode)) return "not a file";
  if (info.st_size == 0) return "empty";
  if (info.st_size > std::numeric_limits<uint32_t>::max()) return str("too large: ", info.st_size, " bytes");
  return "";
}

/// All pictures of one class.
struct ClassFiles {
  std::string names;  // counted from the class's folder, one behind the other
  std::vector<size_t> ends;
  std::vector<uint32_t> bytes;
  LeftOut hidden, unnamed;
};

class ClassReader {
 public:
  ClassReader(fs::path folder, const ListingOptions& options) : folder_(std::move(folder)), options_(options) {}

  ClassFiles read() {
    if (options_.may_lack_classes && !is_there(folder_, ExitCode::data)) return {};
    visit("");
    std::ranges::sort(folders_, {}, &FolderFiles::below);
    for (FolderFiles& folder : folders_) {
      std::ranges::sort(folder.files);
      for (const auto& [name, bytes] : folder.files) {
        result_.names += folder.below.empty() ? name : str(folder.below, '/', name);
        result_.ends.push_back(result_.names.size());
        result_.bytes.push_back(bytes);
      }
    }
    const auto all = static_cast<int64_t>(result_.bytes.size()), none = std::ranges::count(result_.bytes, 0u);
    if (none == all && (all > 0 || !options_.may_lack_classes))
      fail(ExitCode::data, folder_.string(), ": no pictures",
           none == 0 ? "" : str(" but ", counted(none, "file"), " that cannot be read"),
           "; put some there, or remove the folder of this class");
    return std::move(result_);
  }

 private:
  void visit(const std::string& below) {
    const fs::path path = below.empty() ? folder_ : folder_ / below;
    OpenFolder folder(path);
    struct stat info {};
    if (fstat(folder.fd(), &info) != 0) fail_io("look at", path, errno, ExitCode::data);
    const std::pair place{info.st_dev, info.st_ino};
    if (std::ranges::find(above_, place) != above_.end())
      fail(ExitCode::data, path.string(), ": a link to a folder above it; remove it");
    above_.push_back(place);
    FolderFiles found{.below = below};
    for (const auto& [name, type] : folder.entries(path)) {
      if (is_hidden_name(name)) {
        result_.hidden.add(path / name);
        continue;
      }
      const bool named = is_picture_name(name);
      if (type == DT_REG && !named) {
        result_.unnamed.add(path / name);
        continue;
      }
      const std::string inside = below.empty() ? name : str(below, '/', name);
      const int error = type != DT_DIR && fstatat(folder.fd(), name.c_str(), &info, 0) != 0 ? errno : 0;
      if (type == DT_DIR || (error == 0 && S_ISDIR(info.st_mode)))
        visit(inside);
      else if (named)
        found.files.emplace_back(name, bytes_of(path / name, error, info));
      else
        result_.unnamed.add(path / name);
    }
    folders_.push_back(std::move(found));
    above_.pop_back();
  }

  uint32_t bytes_of(const fs::path& path, int error, const struct stat& info) const {
    if (is_of_system(error)) fail_io("look at", path, error, ExitCode::data);
    const std::string problem = problem_of_status(error, info);
    if (problem.empty()) return static_cast<uint32_t>(info.st_size);
    if (options_.on_corrupt == OnCorrupt::skip) return 0;
    fail(ExitCode::data, path.string(), ": ", problem, "; restore or remove it, or ", kSkipDamaged);
  }

  const fs::path folder_;
  const ListingOptions& options_;
  std::vector<std::pair<dev_t, ino_t>> above_;
  std::vector<FolderFiles> folders_;
  ClassFiles result_;
};

}  // namespace

std::vector<std::string> folders_in(const fs::path& folder, AllLeftOut* left_out) {
  if (const PathKind kind = kind_of(folder, ExitCode::data); kind != PathKind::folder)
    fail(ExitCode::data, folder.string(), ": ", kind == PathKind::nothing ? "no such folder" : "not a folder",
         "; it must contain a folder of pictures for each class");
  OpenFolder open(folder);
  std::vector<std::string> names;
  for (const auto& [name, type] : open.entries(folder)) {
    const bool hidden = is_hidden_name(name);
    if (!hidden && leads_to_folder(open, name, type)) {
      names.push_back(name);
    } else if (left_out != nullptr) {
      LeftOut& reason = hidden ? left_out->hidden : is_picture_name(name) ? left_out->loose : left_out->unnamed;
      reason.add(folder / name);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names = folders_in(folder);
  constexpr size_t kMost = size_t{std::numeric_limits<uint16_t>::max()} + 1;
  if (names.empty())
    fail(ExitCode::data, folder.string(), ": no folders; put the pictures of each class into its own folder");
  if (names.size() == 1)
    fail(ExitCode::data, folder.string(), ": only one folder, ", in_quotes(names.front()),
         ": training needs two classes or more; put the pictures of each class into its own folder");
  if (names.size() > kMost)
    fail(ExitCode::data, folder.string(), ": ", names.size(), " folders; there may be ", kMost, " classes");
  for (const std::string& name : names)
    if (const std::string fault = fault_of_name(name); !fault.empty())
      fail(ExitCode::data, folder.string(), ": the folder ", in_quotes(name), " names a class, but its name ", fault,
           "; rename it");
  return names;
}

bool is_picture_name(std::string_view name) {  // pictures that the decoder refuses too, so that they are named
  static constexpr std::array<std::string_view, 9> kEndings = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                               ".pgm", ".tif",  ".tiff", ".webp"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    return name.size() >= ending.size() &&
           std::equal(ending.begin(), ending.end(), name.end() - static_cast<std::ptrdiff_t>(ending.size()),
                      [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  });
}

std::string problem_of_file(const fs::path& path) {
  struct stat info {};
  const int error = stat(path.c_str(), &info) != 0 ? errno : 0;
  return problem_of_status(error, info);
}

Listing::Listing(const fs::path& folder, const std::vector<std::string>& classes, const ListingOptions& options) {
  folders_in(folder, &left_out_);
  in_order(
      static_cast<int64_t>(classes.size()), std::min(options.threads, static_cast<int>(classes.size())),
      [&](int64_t c) { return ClassReader(folder / classes[static_cast<size_t>(c)], options).read(); },
      [&](int64_t c, ClassFiles files) {
        const size_t before = names_.size();
        names_ += files.names;
        for (const size_t end : files.ends) ends_.push_back(before + end);
        bytes_.insert(bytes_.end(), files.bytes.begin(), files.bytes.end());
        labels_.insert(labels_.end(), files.bytes.size(), static_cast<uint16_t>(c));
        left_out_.hidden.add(files.hidden);
        left_out_.unnamed.add(files.unnamed);
      });
  if (bytes_.empty())
    fail(ExitCode::data, folder.string(), ": no pictures in the folders of any class; put some there");
  if (bytes_.size() > std::numeric_limits<uint32_t>::max())
    fail(ExitCode::data, folder.string(), ": ", bytes_.size(), " pictures are too many");
  names_.shrink_to_fit();
  ends_.shrink_to_fit();
  bytes_.shrink_to_fit();
  labels_.shrink_to_fit();
}

std::string_view Listing::name(int64_t i) const {
  const size_t begin = i > 0 ? ends_[static_cast<size_t>(i - 1)] : 0;
  return std::string_view(names_).substr(begin, ends_[static_cast<size_t>(i)] - begin);
}

}  // namespace ct
