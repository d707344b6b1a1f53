#include "checkpoint/sealed_json.h"

#include <set>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/files.h"

namespace ct {
namespace {

constexpr std::string_view kBlank = "00000000";

uint32_t seal_of(std::string_view opening, std::string_view rest, uint32_t start) {
  return crc32c(rest, crc32c(kBlank, crc32c(opening, start)));
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& whose) {
  using Json = nlohmann::json;
  constexpr int kDeepest = 32;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest)
      fail(ExitCode::checkpoint, whose, " is nested too deeply: the file is damaged or not this program's");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      fail(ExitCode::checkpoint, whose, " has ", in_quotes(parsed.get<std::string>()),
           " twice: the file is damaged or not this program's");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception&) {
    fail(ExitCode::checkpoint, whose, " is not valid JSON: the file is damaged, use another copy of it");
  }
}

std::string seal(std::string_view opening, std::string_view rest, uint32_t start) {
  return std::string(opening) + crc_text(seal_of(opening, rest, start)) + std::string(rest);
}

bool is_sealed(std::string_view text, std::string_view opening, uint32_t start) {
  const size_t end = opening.size() + kBlank.size();
  if (!text.starts_with(opening) || text.size() < end) return false;
  return parse_crc(text.substr(opening.size(), kBlank.size())) == seal_of(opening, text.substr(end), start);
}

}  // namespace ct
