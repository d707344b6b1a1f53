#include "data/packed/pack.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/in_order.h"
#include "base/utf8.h"
#include "data/packed/format.h"
#include "data/pictures/encode.h"
#include "data/pictures/picture_set.h"
#include "data/pictures/resize.h"
#include "data/pictures/transform.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// What is packed of one image, or why it is not.
struct Packable {
  std::vector<std::byte> file;
  std::string problem;
};

class Packer {
 public:
  Packer(const DataSet& train, const DataSet& test, const PackOptions& options)
      : sets_{&train, &test}, options_(options) {}

  /// Writes all of it to an empty file.
  PackedCounts write(File& file) {
    PackedCounts counts;
    std::vector<std::string> class_names;
    for (const std::string& name : sets_[0]->class_names()) class_names.push_back(printable(name));
    std::vector<PackedPicture> pictures[2];
    uint64_t at = front_bytes();  // in full, though pictures that are left out will leave a gap
    for (const size_t split : {0, 1}) {
      const DataSet& set = *sets_[split];
      counts.left_out += set.skipped();
      const auto make = [&](int64_t i) { return packable(set, i); };
      in_order(set.count(), options_.threads, make, [&](int64_t i, Packable made) {
        if (options_.progress) options_.progress(done_++, sets_[0]->count() + sets_[1]->count());
        if (!made.problem.empty()) {
          leave_out(dynamic_cast<const PictureSet&>(set), i, made.problem);
          ++counts.left_out;
          return;
        }
        pictures[split].push_back(
            {at, static_cast<uint32_t>(made.file.size()), crc32c(made.file), set.label(i), kept_name(set, i)});
        file.write_at(made.file, at);
        at += made.file.size();
      });
      set.check_unchanged();
      if (pictures[split].empty())
        fail(ExitCode::data, options_.root.string(), ": no picture to ", split == 0 ? "train" : "test",
             " on is left; give a folder with pictures");
    }
    file.write_at(packed_front(class_names, pictures[0], pictures[1], at), 0);
    counts.train = static_cast<int64_t>(pictures[0].size());
    counts.test = static_cast<int64_t>(pictures[1].size());
    counts.bytes = at;
    return counts;
  }

 private:
  uint64_t front_bytes() const {
    uint64_t text = 0, pictures = 0;
    for (const std::string& name : sets_[0]->class_names()) text += printable(name).size();
    for (const DataSet* set : sets_)
      for (int64_t i = 0; i < set->count(); ++i, ++pictures) text += kept_name(*set, i).size();
    return packed_front_bytes(pictures, static_cast<uint64_t>(sets_[0]->classes()), text);
  }

  std::string kept_name(const DataSet& set, int64_t i) const {
    const auto* const pictures = dynamic_cast<const PictureSet*>(&set);
    if (pictures == nullptr) return str(&set == sets_[0] ? "train/" : "test/", i);
    const fs::path name = pictures->picture_name(i), below = name.lexically_relative(options_.root);
    return below.empty() || *below.begin() == ".." ? name.string() : below.string();
  }

  Packable packable(const DataSet& set, int64_t i) const {
    const auto* const pictures = dynamic_cast<const PictureSet*>(&set);
    if (pictures == nullptr) {
      const SampleShape& shape = set.shape();
      std::vector<uint8_t> sample(shape.bytes());
      set.read(i, {}, sample.data());
      return {encode_png(sample, static_cast<int>(shape.channels), static_cast<int>(shape.width),
                         static_cast<int>(shape.height)),
              ""};
    }
    std::vector<std::byte> scratch;
    try {
      const std::span<const std::byte> file = pictures->bytes(i, scratch);
      const Picture picture = decode(file, {.max_pixels = options_.max_pixels});
      if (auto smaller = resized_file(picture)) return {*std::move(smaller), ""};
      if (file.size() > std::numeric_limits<uint32_t>::max()) return {{}, "larger than 4 GiB"};
      if (file.data() == scratch.data() && file.size() == scratch.size()) return {std::move(scratch), ""};
      return {{file.begin(), file.end()}, ""};
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      return {{}, error.what()};
    }
  }

  /// Nothing where the picture is small enough.
  std::optional<std::vector<std::byte>> resized_file(const Picture& picture) const {
    const PictureSize whole{picture.width, picture.height};
    if (options_.resize == 0 || std::min(whole.width, whole.height) <= options_.resize) return std::nullopt;
    const PictureSize size = resized_size(whole, options_.resize);
    if (std::max(size.width, size.height) > kLongestJpeg) return std::nullopt;
    return encode_jpeg(resized(picture, size), options_.quality);
  }

  void leave_out(const PictureSet& set, int64_t i, const std::string& problem) const {
    const std::string name = set.picture_name(i);
    const std::string what = problem.find(name) == problem.npos ? str(printable(name), ": ", problem) : problem;
    if (options_.on_corrupt == OnCorrupt::error)
      fail(ExitCode::data, what, "; repair or remove it, or leave such pictures out with --on-corrupt skip");
    if (options_.left_out) options_.left_out(what);
  }

  const DataSet* const sets_[2];
  const PackOptions& options_;
  int64_t done_ = 0;
};

/// Keeps a second writer out of a folder, for as long as this process lives: both would write to one temporary name.
/// Where the file system has no locks, nothing does.
class OnlyWriter {
 public:
  OnlyWriter(FileSystem& files, const fs::path& folder) : folder_(files, folder, O_RDONLY | O_DIRECTORY) {
    if (uninterrupted([&] { return files.lock(folder_.fd()); }) != 0 && errno == EWOULDBLOCK)
      fail(ExitCode::usage, folder.string(), ": another data convert is writing into it; wait until it has ended");
  }

 private:
  const File folder_;
};

}  // namespace

PackedCounts pack(FileSystem& files, const fs::path& out, const DataSet& train, const DataSet& test,
                  const PackOptions& options) {
  check(train.class_names() == test.class_names(), "the two splits have different classes");
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  make_folders(files, folder);
  const OnlyWriter lock(files, folder);
  PackedCounts counts;
  write_file_atomic(files, out, [&](File& file) { counts = Packer(train, test, options).write(file); });
  return counts;
}

}  // namespace ct
