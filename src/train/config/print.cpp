#include "train/config/print.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "train/config/schema.h"

namespace ct {
namespace {

std::vector<std::string> parts_of(const std::string& key) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t dot; (dot = key.find('.', begin)) != std::string::npos; begin = dot + 1)
    parts.push_back(key.substr(begin, dot - begin));
  parts.push_back(key.substr(begin));
  return parts;
}

std::string with_comment(const std::string& line, const std::string& comment) {
  constexpr size_t kColumn = 44;
  if (comment.empty()) return line + "\n";
  return line + std::string(line.size() < kColumn ? kColumn - line.size() : 1, ' ') + "# " + comment + "\n";
}

constexpr size_t kWidth = 80;

/// The end of a text that is too long, such as a path and the place in its file.
std::string end_of(const std::string& text, size_t most) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - most + 3);
}

/// A line of at most 80 columns, if the key and its value allow it, with its origin: beside it, or above it.
std::string with_origin(const std::string& line, const std::string& origin) {
  constexpr size_t kColumn = 44, kLeast = 24;  // of the comment
  const size_t begin = std::max(line.size() + 1, kColumn) + 2, room = begin < kWidth ? kWidth - begin : 0;
  if (room >= std::min(origin.size(), kLeast)) return with_comment(line, end_of(origin, room));
  const std::string indent(line.find_first_not_of(' '), ' ');
  return indent + "# " + end_of(origin, kWidth - 2 - indent.size()) + "\n" + wrapped(line, kWidth, indent + "  ") +
         "\n";
}

/// What the names alone do not say.
std::string remark(const Config& config, const std::string& key) {
  const auto* adam = config.optimizer ? std::get_if<optim::Adam>(&*config.optimizer) : nullptr;
  if (key == "optimizer.type" && adam && adam->adam_w_mode && adam->weight_decay > 0)
    return "with decoupled weight decay (AdamW), as DeepSpeed's";
  return "";
}

}  // namespace

std::string to_yaml(const Config& config, const PrintOptions& options) {
  Config copy = config;
  std::optional<BatchSizes> batch;
  if (options.ranks) batch = batch_for(config.batch, *options.ranks);

  std::string text;
  std::vector<std::string> open;  // the blocks that the previous line lay in
  const std::vector<ConfigField> counting = effective_fields(copy);
  for (const ConfigField& field : config_fields(copy)) {
    if (options.given_only && !config.origins.contains(field.key)) continue;
    const auto counts = [&](const ConfigField& other) { return other.key == field.key; };
    if (std::none_of(counting.begin(), counting.end(), counts)) {
      const int64_t derived = !batch                                          ? 0
                              : field.key == "train_batch_size"               ? batch->train
                              : field.key == "train_micro_batch_size_per_gpu" ? batch->micro
                              : field.key == "gradient_accumulation_steps"    ? batch->accumulation
                                                                              : 0;
      if (derived > 0) {
        text += str("# ", field.key, ": ", derived, "  (follows on ", *options.ranks,
                    *options.ranks == 1 ? " rank" : " ranks", ")\n");
      }
      if (field.key == "scheduler.type") {
        text += with_comment("scheduler: {}", "constant");
        open.clear();
      }
      continue;
    }
    const std::vector<std::string> parts = parts_of(field.key);
    size_t depth = 0;
    while (depth + 1 < parts.size() && depth < open.size() && open[depth] == parts[depth]) ++depth;
    for (; depth + 1 < parts.size(); ++depth) text += std::string(2 * depth, ' ') + parts[depth] + ":\n";
    open.assign(parts.begin(), parts.end() - 1);
    const std::string line = std::string(2 * depth, ' ') + parts.back() + ": " + field_text(field);
    const std::string comment = remark(config, field.key);
    if (!options.origins) {
      text += with_comment(line, comment);
    } else {
      const auto found = config.origins.find(field.key);
      const std::string origin = found == config.origins.end() ? "default" : found->second;
      // Origins quote the command line, whose words may hold line breaks.
      std::string plain = origin;
      std::ranges::replace_if(
          plain, [](unsigned char c) { return std::iscntrl(c); }, '?');
      if (!comment.empty()) text += std::string(2 * depth, ' ') + "# " + comment + "\n";
      text += with_origin(line, plain);
    }
  }
  return text;
}

std::vector<std::string> state_dump(const Config& config, int ranks) {
  Config copy = config;
  const BatchSizes batch = batch_for(config.batch, ranks);
  std::map<std::string, std::string> values;
  for (const ConfigField& field : config_fields(copy)) values[field.key] = field_text(field);
  values["train_batch_size"] = std::to_string(batch.train);
  values["train_micro_batch_size_per_gpu"] = std::to_string(batch.micro);
  values["gradient_accumulation_steps"] = std::to_string(batch.accumulation);

  size_t column = 0;
  for (const auto& [key, value] : values) column = std::max(column, key.size());
  std::vector<std::string> lines = {"configuration in force:"};
  for (const auto& [key, value] : values)
    lines.push_back("  " + key + " " + std::string(column + 3 - key.size(), '.') + " " +
                    (value.empty() ? "null" : value));
  return lines;
}

}  // namespace ct
