#include "data/pictures/picture_set.h"

#include <algorithm>

#include "base/error.h"

namespace ct {
namespace {

/// What is wrong with a picture, where `action` throws Error(data); empty: nothing.
template <class Action>
std::string problem_of(Action action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    return error.what();
  }
}

}  // namespace

bool PictureSet::read(int64_t i, const SampleKey& key, uint8_t* to) const {
  std::vector<std::byte> scratch;
  const std::string problem =
      problem_of([&] { make_sample(bytes(i, scratch), transform_, key, static_cast<uint32_t>(i), to); });
  if (problem.empty()) return true;
  check_unchanged();  // a file that was written over is no damaged one
  if (on_corrupt_ == OnCorrupt::skip) return false;
  if (!is_as_it_was(i))
    fail(ExitCode::data, picture_name(i), ": ", problem, "; restore the original file and start again");
  fail(ExitCode::data, picture_name(i), ": ", problem, "; repair or remove the file, or ", kSkipDamaged);
}

std::string PictureSet::enlarged() const {
  std::vector<std::byte> scratch;
  Picture first;
  const auto look = [&] { first = decode(bytes(0, scratch), {.max_pixels = transform_.max_pixels}); };
  if (count() == 0 || !problem_of(look).empty()) return "";
  const int side = std::min(first.width, first.height);
  if (2 * side > transform_.size) return "";
  return str(picture_name(0), " is ", first.width, "x", first.height, " and becomes ", transform_.size, "x",
             transform_.size, ": data.size=", side, " data.resize=", side, " would keep their pixels");
}

std::optional<PictureSize> PictureSet::size_of(int64_t i, std::vector<std::byte>& scratch) const {
  PictureSize size;
  const auto look = [&] {
    const auto a_pixel = [&](PictureSize whole) {
      size = whole;
      return Window{0, 0, 1, 1};
    };
    decode_window(bytes(i, scratch), a_pixel, {.size = {1, 1}}, {.max_pixels = transform_.max_pixels});
  };
  return problem_of(look).empty() ? std::optional(size) : std::nullopt;
}

std::string PictureSet::problem(int64_t i) const {
  std::vector<std::byte> scratch;
  return problem_of([&] { decode(bytes(i, scratch), {.max_pixels = transform_.max_pixels}); });
}

}  // namespace ct
