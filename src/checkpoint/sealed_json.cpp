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

/// Refuses what is valid JSON, but not written by this program.
class StrictRules : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictRules(const std::string& whose) : whose_(whose) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second)
      fail(ExitCode::checkpoint, whose_, " has ", in_quotes(name), " twice: the file is damaged or not this program's");
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  bool open() {
    constexpr size_t kDeepest = 32;
    keys_.emplace_back();
    if (keys_.size() > kDeepest)
      fail(ExitCode::checkpoint, whose_, " is nested too deeply: the file is damaged or not this program's");
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const std::string& whose_;
  std::vector<std::set<std::string>> keys_;  // of the lists and objects that are open
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& whose) {
  StrictRules rules(whose);
  // First the rules alone: a callback of parse() would see them too, but takes quadratic time.
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &rules))
    fail(ExitCode::checkpoint, whose, " is not valid JSON: the file is damaged, use another copy of it");
  return nlohmann::json::parse(text.begin(), text.end());
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
