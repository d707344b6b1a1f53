#include "cli/compare/record.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "checkpoint/sealed_json.h"
#include "train/config/schema.h"
#include "train/device.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

constexpr const char* kRecord = "comparison.json";
constexpr std::string_view kOpening = R"({"format":"cifar-train comparison 1","crc32c":")";
constexpr uint64_t kLongest = uint64_t{1} << 20;  // bytes

[[noreturn]] void refuse(const Path& out, const std::string& why) {
  fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " ", why, ": give another --output");
}

ComparedSettings read_record(const Path& out) try {
  const std::string text = read_file(out / kRecord, kLongest);
  if (is_sealed(text, kOpening)) return nlohmann::json::parse(text).at("settings").get<ComparedSettings>();
  refuse(out, str("has another or a damaged ", kRecord));
} catch (const nlohmann::json::exception&) {
  refuse(out, str("has another or a damaged ", kRecord));
}

}  // namespace

ComparedSettings compared_settings(const Config& config, int64_t ranks, const std::string& initial) {
  ComparedSettings settings = {{"--ranks", std::to_string(ranks)},
                               {"initial weights", initial.empty() ? "by the seed" : printable(initial)},
                               {"GPUs", std::to_string(gpu_count(config))}};
  Config effective = config;
  for (const ConfigField& field : effective_fields(effective))
    if (field.key != "output") settings[field.key] = field_text(field);
  return settings;
}

bool holds_comparison(const Path& out, const ComparedSettings& settings) {
  require_folder_or_nothing(out);
  if (!is_there(out / kRecord)) {
    if (holds_run(out)) refuse(out, "holds a run");
    if (!list_folder(out).empty()) refuse(out, "has other files and no comparison");
    return false;
  }
  const ComparedSettings before = read_record(out);
  ComparedSettings all = before;
  all.insert(settings.begin(), settings.end());
  const auto text_in = [](const ComparedSettings& of, const std::string& key) {
    const auto found = of.find(key);
    return found == of.end() ? "absent" : found->second;
  };
  for (const auto& [key, any] : all)
    if (text_in(before, key) != text_in(settings, key))
      fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " holds a comparison of other settings (", key,
           ": ", text_in(before, key), " there, ", text_in(settings, key),
           " now): give another --output, or delete this folder first");
  return true;
}

void begin_comparison(FileSystem& files, const Path& out, const ComparedSettings& settings) {
  make_folders(files, out);
  write_file_atomic(files, out / kRecord,
                    seal(kOpening, str("\",\"settings\":", nlohmann::json(settings).dump(), "}\n")));
}

}  // namespace ct
