#include "train/reports/state_dump.h"

#include <algorithm>
#include <map>

#include "train/config/schema.h"

namespace ct {

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
