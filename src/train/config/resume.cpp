#include "train/config/resume.h"

#include <map>

#include "train/config/schema.h"

namespace ct {

void settle_like(Config& now, const Config& saved) {
  now.model.settle_like(saved.model);
  if (!now.bf16.enabled) now.bf16.enabled = saved.bf16.enabled;
}

ResumeDifference resume_difference(const Config& saved, int64_t saved_ranks, const Config& now, int64_t ranks) {
  struct Pair {
    std::string saved = "absent", now = "absent";
    bool may_change = false;
  };
  std::map<std::string, Pair> pairs;
  Config left = saved, right = now;
  for (const ConfigField& field : effective_fields(left)) pairs[field.key].saved = field_text(field);
  for (const ConfigField& field : effective_fields(right)) pairs[field.key].now = field_text(field);
  for (const ConfigField& field : config_fields(right))
    if (const auto found = pairs.find(field.key); found != pairs.end())
      found->second.may_change = field.rule.resume_may_change;

  ResumeDifference difference;
  const BatchSizes before = batch_for(saved.batch, saved_ranks), after = batch_for(now.batch, ranks);
  const auto batch_key = [&](const char* key, bool both_given, int64_t was, int64_t is) {
    if (both_given) return;
    pairs.erase(key);
    if (was != is)
      difference.warnings.push_back(str(key, ": ", was, " on the saved run's ", saved_ranks,
                                        saved_ranks == 1 ? " rank, " : " ranks, ", is, " on ", ranks,
                                        " now; the run continues, but not to the same bits"));
  };
  batch_key("train_batch_size", saved.batch.train && now.batch.train, before.train, after.train);
  batch_key("train_micro_batch_size_per_gpu", saved.batch.micro && now.batch.micro, before.micro, after.micro);
  // Accumulation follows from the ranks, given or not, and changes nothing while the two above stay.
  const bool same_sizes = before.train == after.train && before.micro == after.micro;
  if (same_sizes || !saved.batch.accumulation || !now.batch.accumulation) pairs.erase("gradient_accumulation_steps");

  for (const auto& [key, pair] : pairs) {
    if (pair.saved == pair.now || pair.may_change) continue;
    const std::string word = str(key, "=", pair.saved);
    const bool can_be_given = !now.origins.contains(key) && pair.saved != Pair{}.saved;
    difference.forbidden.push_back(str(key, ": ", pair.saved, " saved, ", pair.now, " now",
                                       !can_be_given ? ""
                                       : word.find(' ') == word.npos
                                           ? str(" (not given: --set ", word, " restores it)")
                                           : str(" (not given: --set '", word, "' restores it)")));
  }
  return difference;
}

}  // namespace ct
