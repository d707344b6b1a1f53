#include "data/file_lists/file_list_set.h"

#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include "base/crc32c.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

std::optional<int> label_of(std::string_view text) {
  int label = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  return error == std::errc() && end == text.data() + text.size() && label >= 0 ? std::optional(label) : std::nullopt;
}

/// Calls entry(name, label, line's number) for each line "<name><separator><label>"; blank ones are none.
void read_list(const fs::path& path, char separator,
               const std::function<void(std::string_view name, int label, int64_t line)>& entry) {
  const std::string text = read_file(path, uint64_t{1} << 30, MappedFile::Links::follow, ExitCode::data);
  int64_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    ++number;
    const size_t end = rest.find('\n');
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (line.empty()) continue;
    const size_t at = line.rfind(separator);
    const auto label = at == line.npos ? std::nullopt : label_of(trimmed(line.substr(at + 1)));
    const std::string_view name = label ? trimmed(line.substr(0, at)) : "";
    if (name.empty())
      fail(ExitCode::data, path.string(), ": line ", number, ": ", in_quotes(line), " is not a name, '", separator,
           "' and a label; write the list again");
    entry(name, *label, number);
  }
}

std::vector<std::string> read_names(const fs::path& path) {
  std::vector<std::string> names;
  read_list(path, ',', [&](std::string_view name, int label, int64_t line) {
    if (label >= kMostClasses)
      fail(ExitCode::data, path.string(), ": line ", line, ": label ", label, " is more than the ", kMostClasses - 1,
           " that are possible");
    if (static_cast<size_t>(label) >= names.size()) names.resize(static_cast<size_t>(label) + 1);
    std::string& to = names[static_cast<size_t>(label)];
    if (!to.empty()) fail(ExitCode::data, path.string(), ": line ", line, ": label ", label, " has a name already");
    to = printable(name);
  });
  if (names.empty()) fail(ExitCode::data, path.string(), ": contains no class; write the list again");
  for (size_t c = 0; c < names.size(); ++c)
    if (names[c].empty()) fail(ExitCode::data, path.string(), ": label ", c, " has no name; write the list again");
  return names;
}

}  // namespace

bool holds_file_lists(const fs::path& folder) {
  const auto has = [&](std::string_view list) { return is_there(folder / list, ExitCode::data); };
  if (!has(kTrainingList) && !has(kValidationList)) return false;
  for (const std::string_view list : {kTrainingList, kValidationList, kLabelList})
    if (!has(list))
      fail(ExitCode::data, folder.string(), ": has no ", list, ", which its other lists need: ", kTrainingList, ", ",
           kValidationList, " and ", kLabelList, " go together");
  return true;
}

FileListSet::FileListSet(const fs::path& folder, Split split, OnCorrupt on_corrupt)
    : PictureSet("pictures of file lists", PictureTransform{}, on_corrupt) {
  class_names_ = read_names(folder / kLabelList);
  const fs::path list = folder / (split == Split::train ? kTrainingList : kValidationList);
  read_list(list, ' ', [&](std::string_view path, int label, int64_t line) {
    if (label >= classes())
      fail(ExitCode::data, list.string(), ": line ", line, ": label ", label, ", the classes are 0 to ", classes() - 1);
    pictures_.push_back((folder / path).string());
    labels_.push_back(static_cast<uint16_t>(label));
  });
  if (pictures_.empty()) fail(ExitCode::data, list.string(), ": contains no picture; write the list again");
}

uint32_t FileListSet::fingerprint() const {
  uint32_t crc = crc32c(std::as_bytes(std::span(labels_)));
  for (const std::string& path : pictures_) crc = crc32c(path, crc);
  return crc;
}

std::span<const std::byte> FileListSet::bytes(int64_t i, std::vector<std::byte>& scratch) const {
  const std::string file =
      read_file(pictures_[static_cast<size_t>(i)], uint64_t{1} << 30, MappedFile::Links::follow, ExitCode::data);
  const auto bytes = std::as_bytes(std::span(file));
  scratch.assign(bytes.begin(), bytes.end());
  return scratch;
}

}  // namespace ct
