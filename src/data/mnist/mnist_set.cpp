#include "data/mnist/mnist_set.h"

#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/wrong_download.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

int64_t number_at(std::span<const std::byte> file, size_t at) {
  int64_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | std::to_integer<int64_t>(file[at + i]);
  return number;
}

/// `header` bytes that begin with `magic` and the number of items, then so many items of `item` bytes. Of what else the
/// header says, `other` says what is wrong.
template <class Other>
IdxFile read_idx(std::span<const std::byte> file, size_t header, int magic, int64_t item, Other other) {
  const auto wrong = [](auto... what) { return IdxFile{.problem = str(what...)}; };
  if (file.empty()) return wrong("empty");
  if (file.size() > 1 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b})
    return wrong("still compressed with gzip");
  if (const std::string_view other_file = wrong_download(file); !other_file.empty()) return wrong(other_file);
  if (file.size() < header) return wrong("truncated: ", file.size(), " bytes, its header alone has ", header);
  if (const int64_t found = number_at(file, 0); found != magic)
    return wrong("begins with the number ", found, ", such an idx file begins with ", magic);
  const int64_t count = number_at(file, 4), whole = static_cast<int64_t>(header) + count * item,
                bytes = static_cast<int64_t>(file.size());
  if (std::string problem = other(); !problem.empty()) return wrong(problem);
  if (count == 0) return wrong("its header declares 0 items");
  if (bytes != whole)
    return wrong(bytes < whole ? "truncated: " : "too long: ", bytes, " bytes where ", whole, " belong (", count,
                 " items of ", item, " and a header of ", header, ")");
  return {.items = file.subspan(header), .count = count};
}

constexpr std::array<std::string_view, kMnistClasses> kFashion = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"};

/// Does its name, or that of the folder around it, say so?
bool is_fashion(const fs::path& folder) {
  const fs::path whole = absolute_of(folder / "").parent_path();
  return lower_case(whole.filename().native() + whole.parent_path().filename().native()).find("fashion") !=
         std::string::npos;
}

[[noreturn]] void fail_file(const fs::path& path, const std::string& problem) {
  fail(ExitCode::data, path.string(), ": ", with_remedy(problem, mnist_remedy()));
}

MappedFile map(const fs::path& path) {
  if (const std::string problem = missing_file(path); !problem.empty()) fail_file(path, problem);
  return MappedFile(path, MappedFile::Links::follow, ExitCode::data);
}

}  // namespace

IdxFile read_images(std::span<const std::byte> file) {
  const auto& [channels, height, width] = kMnistShape;
  return read_idx(file, /*header=*/16, /*magic=*/0x803, height * width, [&]() -> std::string {
    const int64_t rows = number_at(file, 8), columns = number_at(file, 12);
    if (rows == height && columns == width) return "";
    return str("has images of ", rows, "x", columns, ", MNIST's have ", height, "x", width);
  });
}

IdxFile read_labels(std::span<const std::byte> file) {
  return read_idx(file, /*header=*/8, /*magic=*/0x801, /*item=*/1, [] { return std::string(); });
}

std::string missing_file(const fs::path& path) {
  const PathKind kind = kind_of(path, ExitCode::data);
  if (kind != PathKind::nothing) return kind == PathKind::file ? "" : "not a file";
  const std::string compressed = path.filename().string() + ".gz";
  return is_there(path.parent_path() / compressed, ExitCode::data) ? "no such file, only " + compressed
                                                                   : "no such file";
}

std::string_view mnist_remedy() {
  static const std::string remedy = str("unpack it by gunzip -k from its .gz (", kMnistSource, ")");
  return remedy;
}

std::string bad_label(int64_t i, int label) {
  return str("label ", i, " is ", label, ", the classes are 0 to ", kMnistClasses - 1);
}

std::string count_problem(int64_t images, int64_t labels) {
  return images == labels ? "" : str(labels, " labels for ", images, " images");
}

MnistSet::MnistSet(const fs::path& folder, Split split, OnCorrupt on_corrupt)
    : DataSet(std::string(kMnistName), kMnistShape), file_(map(folder / mnist_files(split).images)) {
  const bool fashion = is_fashion(folder);
  for (int i = 0; i < kMnistClasses; ++i)
    class_names_.push_back(fashion ? std::string(kFashion[static_cast<size_t>(i)]) : std::to_string(i));
  const IdxFile images = read_images(file_.bytes());
  if (!images.problem.empty()) fail_file(file_.path(), images.problem);
  const fs::path path = folder / mnist_files(split).labels;
  const MappedFile labels_file = map(path);
  const IdxFile labels = read_labels(labels_file.bytes());
  if (!labels.problem.empty()) fail_file(path, labels.problem);
  if (const std::string problem = count_problem(images.count, labels.count); !problem.empty()) fail_file(path, problem);
  for (int64_t i = 0; i < images.count; ++i) {
    const int label = std::to_integer<int>(labels.items[static_cast<size_t>(i)]);
    if (label < kMnistClasses) {
      pixels_.push_back(images.items.data() + static_cast<size_t>(i) * kMnistShape.bytes());
      labels_.push_back(static_cast<uint16_t>(label));
    } else if (on_corrupt == OnCorrupt::skip) {
      ++skipped_;
    } else {
      fail(ExitCode::data, path.string(), ": ", bad_label(i, label), "; restore the file or ", kSkipDamaged);
    }
  }
  labels_file.require_unchanged(ExitCode::data);
  check_unchanged();
  if (labels_.empty()) fail_file(path, "no label is valid");
}

uint32_t MnistSet::fingerprint() const {
  uint32_t crc = crc32c(std::as_bytes(std::span(labels_)));
  for (const std::byte* pixels : pixels_) crc = crc32c({pixels, shape().bytes()}, crc);
  return crc;
}

bool MnistSet::read(int64_t i, const SampleKey&, uint8_t* to) const {
  std::memcpy(to, pixels_[static_cast<size_t>(i)], shape().bytes());
  return true;
}

}  // namespace ct
