#include "data/image_list.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/error.h"
#include "base/input.h"
#include "base/paths.h"
#include "data/folder_names.h"
#include "data/image_folder/listing.h"

namespace ct {
namespace fs = std::filesystem;

std::optional<ImageOfSet> image_of_set(const std::string& word) {
  const size_t first = word.find(':'), second = first == word.npos ? first : word.find(':', first + 1);
  if (second == word.npos) return std::nullopt;
  const std::string split = word.substr(first + 1, second - first - 1);
  ImageOfSet image{.kind = word.substr(0, first), .split = split == "train" ? Split::train : Split::test};
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data() + second + 1, end, image.number);
  if (error != std::errc() || at != end || image.number < 0 || (split != "train" && split != "test"))
    return std::nullopt;
  return image;
}

ImageList::ImageList(const PictureTransform& transform, std::vector<std::string> class_names)
    : DataSet("the given images", transform.shape()), transform_(transform) {
  class_names_ = std::move(class_names);
}

void ImageList::add(Item item) {
  items_.push_back(std::move(item));
  labels_.push_back(0);
}

void ImageList::add_file(fs::path path) {
  std::string name = path.string();
  add({std::move(name), std::move(path)});
}

void ImageList::add_bytes(std::string name, std::string bytes) { add({std::move(name), std::move(bytes)}); }

void ImageList::add_of(std::string name, std::shared_ptr<const DataSet> set, int64_t number) {
  add({std::move(name), OfSet{std::move(set), number}});
}

void ImageList::add_folder(const fs::path& folder) {
  std::vector<fs::path> pictures;
  const auto leave_out = [this](const fs::path& path, std::string why) {
    folder_problems_[path.string()] = std::move(why);
  };
  const auto visit = [&](const auto& self, const fs::path& below) -> void {
    std::error_code error;
    fs::directory_iterator entries(below, error);
    if (error && below == folder) fail_io("list", folder, error.value(), ExitCode::data);
    if (error) return leave_out(below, "a folder that cannot be listed: " + error.message());
    for (; entries != fs::directory_iterator(); entries.increment(error)) {
      const fs::path& path = entries->path();
      const bool is_folder = entries->is_directory(error);
      if (is_hidden_name(path.filename().native()))
        leave_out(path, "a hidden name");
      else if (is_folder && entries->is_symlink(error))
        leave_out(path, "a link to a folder");
      else if (is_folder)
        self(self, path);
      else if (!is_picture_name(path.filename().native()))
        leave_out(path, "not the name of a picture");
      else if (std::string problem = problem_of_file(path); !problem.empty())
        leave_out(path, std::move(problem));
      else
        pictures.push_back(path);
    }
  };
  visit(visit, folder);
  std::ranges::sort(pictures);
  for (fs::path& path : pictures) {
    std::string name = path.string();
    add({std::move(name), std::move(path), From::folders});
  }
}

std::map<std::string, std::string> ImageList::problems(From from) const {
  std::lock_guard lock(mutex_);
  return from == From::given ? given_problems_ : folder_problems_;
}

bool ImageList::read(int64_t i, const SampleKey& key, uint8_t* to) const {
  const Item& item = items_[static_cast<size_t>(i)];
  try {
    if (const auto* of = std::get_if<OfSet>(&item.source)) {
      if (of->set->read(of->number, key, to)) return true;
      fail(ExitCode::data, "this image is damaged");
    }
    const auto* const at_hand = std::get_if<std::string>(&item.source);
    const std::string read =
        at_hand != nullptr ? "" : read_input(std::get<fs::path>(item.source), kMostPictureBytes, ExitCode::data);
    make_sample(std::as_bytes(std::span(at_hand != nullptr ? *at_hand : read)), transform_, key,
                static_cast<uint32_t>(i), to);
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    std::lock_guard lock(mutex_);
    (item.from == From::given ? given_problems_ : folder_problems_)[item.name] = error.what();
    return false;
  }
}

void ImageList::check_unchanged() const {
  for (const Item& item : items_)
    if (const auto* of = std::get_if<OfSet>(&item.source)) of->set->check_unchanged();
}

}  // namespace ct
