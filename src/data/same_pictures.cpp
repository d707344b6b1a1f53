#include "data/same_pictures.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_set>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/files.h"
#include "base/in_order.h"
#include "base/text.h"
#include "data/image_folder/image_folder_set.h"

namespace ct {
namespace {

/// The size of a file and a checksum of its middle, where pictures of one size differ.
using Trace = std::pair<uint32_t, uint32_t>;

std::optional<Trace> trace_of(const ImageFolderSet& set, uint32_t image) {
  constexpr size_t kBytes = 4096;
  const uint32_t size = set.listing().bytes(image);
  FileSystem files;
  const int fd = uninterrupted([&] { return files.open(set.path(image), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); });
  if (fd < 0) return std::nullopt;  // reading it will say why
  std::array<std::byte, kBytes> middle;
  const ssize_t n = uninterrupted([&] { return files.read_at(fd, middle, size > kBytes ? (size - kBytes) / 2 : 0); });
  files.close(fd);
  if (n <= 0) return std::nullopt;
  return Trace{size, crc32c(std::span(middle).first(static_cast<size_t>(n)))};
}

/// Calls `take(image, trace)` for the pictures of a part whose size is one of `sizes`.
template <class Take>
void traces(const ImageFolderSet& set, const std::vector<uint32_t>& images, const std::unordered_set<uint32_t>& sizes,
            int threads, const Take& take) {
  std::vector<uint32_t> some;
  for (const uint32_t i : images)
    if (const uint32_t bytes = set.listing().bytes(i); bytes > 0 && sizes.contains(bytes)) some.push_back(i);
  in_order(
      std::ssize(some), threads, [&](int64_t n) { return trace_of(set, some[static_cast<size_t>(n)]); },
      [&](int64_t n, std::optional<Trace> trace) {
        if (trace) take(some[static_cast<size_t>(n)], *trace);
      });
}

std::unordered_set<uint32_t> sizes_of(const ImageFolderSet& set, const std::vector<uint32_t>& images) {
  std::unordered_set<uint32_t> sizes;
  for (const uint32_t i : images) sizes.insert(set.listing().bytes(i));
  return sizes;
}

bool same_content(const ImageFolderSet& a, uint32_t i, const ImageFolderSet& b, uint32_t j) {
  std::vector<std::byte> one, other;
  try {
    return std::ranges::equal(a.bytes(i, one), b.bytes(j, other));
  } catch (const Error& error) {
    if (error.code() == ExitCode::memory) throw;
    return false;
  }
}

}  // namespace

std::string same_pictures(const ImagePart& training, const ImagePart& part, std::string_view use, int threads,
                          std::string_view among) {
  const auto* const train = dynamic_cast<const ImageFolderSet*>(training.set);
  const auto* const others = dynamic_cast<const ImageFolderSet*>(part.set);
  if (train == nullptr || others == nullptr) return "";
  std::map<Trace, std::vector<uint32_t>> known;
  traces(*train, training.images, sizes_of(*others, part.images), threads,
         [&](uint32_t i, const Trace& trace) { known[trace].push_back(i); });
  std::unordered_set<uint32_t> sizes;
  for (const auto& [trace, images] : known) sizes.insert(trace.first);
  int64_t count = 0;
  std::string example;
  traces(*others, part.images, sizes, threads, [&](uint32_t i, const Trace& trace) {
    const auto found = known.find(trace);
    if (found == known.end()) return;
    const auto twin =
        std::ranges::find_if(found->second, [&](uint32_t j) { return same_content(*others, i, *train, j); });
    if (twin == found->second.end()) return;
    if (count++ == 0)
      example = str(in_quotes(others->path(i).native()), " (", in_quotes(train->path(*twin).native()), ")");
  });
  if (count == 0) return "";
  return str(counted(count, str(use, " picture")), count == 1 ? " is" : " are", " also among the ", among, " pictures",
             count == 1 ? ": " : ", such as ", example, "; remove one of the two, for it makes the ", use,
             " accuracy too high");
}

}  // namespace ct
