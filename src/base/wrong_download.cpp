#include "base/wrong_download.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace ct {
namespace {

constexpr std::string_view kPointer = "a pointer of Git LFS, not the file itself: run git lfs pull";
constexpr std::string_view kPage = "a web page, not the file: download the file itself";

}  // namespace

std::string_view wrong_download(std::span<const std::byte> file) {
  std::string_view begin(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 256));
  if (begin.starts_with("version https://git-lfs")) return kPointer;
  begin = without_byte_order_mark(begin);
  begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
  for (const std::string_view page : {"<!DOCTYPE", "<!doctype", "<html", "<HTML", "<?xml", "<head", "<HEAD", "<!--"})
    if (begin.starts_with(page) && begin.find("<svg") == std::string_view::npos) return kPage;
  return "";
}

std::string with_remedy(std::string_view problem, std::string_view remedy) {
  for (const std::string_view end : {kPointer, kPage, remedy})
    if (problem.ends_with(end)) return std::string(problem);
  return str(problem, "; ", remedy);
}

}  // namespace ct
