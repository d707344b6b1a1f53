// Single images from anywhere, as one data set without labels: files, bytes at hand, images of other sets.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/dataset.h"
#include "data/pictures/transform.h"

namespace ct {

/// A word "cifar10:test:17": an image of a data set, by the kind's key, the split and the number in it.
struct ImageOfSet {
  std::string kind;
  Split split = Split::test;
  int64_t number = 0;
};
/// nullopt: the word has another form.
std::optional<ImageOfSet> image_of_set(const std::string& word);

/// A file, or standard input, of more than that is no picture.
inline constexpr size_t kMostPictureBytes = size_t{256} << 20;

class ImageList final : public DataSet {
 public:
  /// Pictures become samples by `transform`. `class_names`: of the network that is asked.
  ImageList(const PictureTransform& transform, std::vector<std::string> class_names);

  /// A picture's file. Where it turns out to be none, read() returns false, as for every damaged image.
  void add_file(std::filesystem::path path);
  /// A picture's bytes, for standard input.
  void add_bytes(std::string name, std::string bytes);
  /// Image `number` of another set with samples of the same shape.
  void add_of(std::string name, std::shared_ptr<const DataSet> set, int64_t number);
  /// All pictures in a folder, at any depth, in the order of their paths. Files without a picture's name, hidden names,
  /// links to folders and what cannot be read become problems().
  void add_folder(const std::filesystem::path& folder);

  const std::string& image_name(int64_t i) const { return items_[static_cast<size_t>(i)].name; }
  /// Something given that is no image, and why.
  void refuse(std::string name, std::string why) { given_problems_[std::move(name)] = std::move(why); }
  /// What was left out so far, the name and the reason: of what was given itself, or of what lies in folders.
  enum class From : bool { given, folders };
  std::map<std::string, std::string> problems(From from) const;

  uint32_t fingerprint() const override { return 0; }  // no run depends on it
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const override;
  void check_unchanged() const override;

 private:
  struct OfSet {
    std::shared_ptr<const DataSet> set;
    int64_t number;
  };
  struct Item {
    std::string name;
    std::variant<std::filesystem::path, std::string, OfSet> source;
    From from = From::given;
  };
  void add(Item item);

  PictureTransform transform_;
  std::vector<Item> items_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::string> given_problems_, folder_problems_;
};

}  // namespace ct
