// Configurations with an `imagenet` block: those of a tutorial in which DeepSpeed trains ResNet-50 on ImageNet. They
// have words of their own, and leave to the script what network and which augmentation it is: in_own_words() gives
// first what the script decides, then what the file says.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "checkpoint/manifest.h"
#include "train/config/foreign.h"

namespace ct {
namespace {

using document::Entry;
using document::fail_at;
using document::Kind;
using document::Node;
using document::quoted;

constexpr const char* kImagenet = "imagenet";

/// What the tutorial's script does whatever its files say.
constexpr const char* kScript = R"(
model: {name: resnet50}
data:
  normalize: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
  augment: [random_resized_crop, flip]
)";

/// The file's words and this program's.
constexpr std::pair<const char*, const char*> kWords[] = {
    {"imagenet.train", "data.train"},
    {"imagenet.val", "data.val"},
    {"train.log_interval", "steps_per_print"},
    {"train.max_global_step", "train.max_steps"},
};
constexpr const char *kSavePath = "train.save_path", *kRunName = "wandb.run_name", *kOutput = "output";

std::pair<std::string, std::string> block_and_name(const std::string& key) {
  const size_t dot = key.find('.');
  return {key.substr(0, dot), dot == std::string::npos ? "" : key.substr(dot + 1)};
}

auto at(std::vector<Entry>& entries, const std::string& key) {
  return std::ranges::find_if(entries, [&](const Entry& e) { return e.key == key; });
}

/// Takes the entry of a key, of one part or two, out of the tree.
std::optional<Entry> take(Node& root, const std::string& key) {
  const auto [block, name] = block_and_name(key);
  const auto outer = at(root.entries, block);
  if (outer == root.entries.end()) return {};
  std::vector<Entry>& entries = name.empty() ? root.entries : outer->value.entries;
  const auto found = name.empty() ? outer : at(entries, name);
  if (found == entries.end()) return {};
  Entry taken = std::move(*found);
  entries.erase(found);
  return taken;
}

/// Puts an entry that was called `old` at a key of one part or two.
void put(Node& root, const std::string& key, Entry entry, const std::string& old) {
  const auto [block, name] = block_and_name(key);
  std::vector<Entry>* entries = &root.entries;
  if (!name.empty()) {
    auto outer = at(root.entries, block);
    if (outer == root.entries.end()) {
      root.entries.push_back({block, entry.mark, {.kind = Kind::map, .mark = entry.mark}});
      outer = root.entries.end() - 1;
    }
    entries = &outer->value.entries;
  }
  entry.key = name.empty() ? block : name;
  if (at(*entries, entry.key) != entries->end())
    fail_at(entry.mark, old, " is an alias of ", key, ", which is given too; remove one");
  entries->push_back(std::move(entry));
}

const Entry* find(const Node& map, const char* key) {
  const auto found = std::ranges::find_if(map.entries, [&](const Entry& e) { return e.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

void require_keys(const Entry& block, const std::vector<std::string>& known) {
  const Kind kind = block.value.kind;
  if (kind != Kind::map && kind != Kind::null)
    fail_at(block.value.mark, block.key, " is a block of keys, found ", quoted(document::flow(block.value)));
  for (const Entry& entry : block.value.entries)
    if (std::ranges::find(known, entry.key) == known.end())
      fail_at(entry.mark, "unknown key ", quoted(block.key + "." + entry.key), " in a file with an ", kImagenet,
              " block");
}

/// A run's folder: save_path/run_name.
void move_output(Node& root) {
  std::optional<Entry> folder = take(root, kSavePath);
  if (!folder) return;
  const std::optional<Entry> name = take(root, kRunName);
  if (name && folder->value.kind == Kind::text) {
    const bool scalar = name->value.kind == Kind::text || name->value.is_number();
    if (!scalar || name->value.text.empty())
      fail_at(name->mark, kRunName, " names the run's folder in ", kSavePath, "; found ",
              quoted(document::flow(name->value)));
    folder->value.text = std::filesystem::path(folder->value.text) / name->value.text;
  }
  put(root, kOutput, *std::move(folder), kSavePath);
}

std::optional<int64_t> count_of(const Node& block, const char* key, int64_t least) {
  constexpr int64_t kMost = 1 << 30;
  const Entry* entry = find(block, key);
  if (entry == nullptr) return {};
  const Node& value = entry->value;
  if (value.kind != Kind::integer || value.integer < least || value.integer > kMost)
    fail_at(value.mark, "eval.", key, " expects a whole number, at least ", least, ", found ",
            quoted(document::flow(value)));
  return value.integer;
}

/// DeepSpeed's RUN/TAG/mp_rank_00_model_states.pt, where the tag is the step, is this program's RUN/ckpt/step-TAG.
std::string own_checkpoint(const std::filesystem::path& path) {
  const std::string tag = path.parent_path().filename();
  int64_t step = -1;
  const auto [end, error] = std::from_chars(tag.data(), tag.data() + tag.size(), step);
  const bool numbered = error == std::errc() && end == tag.data() + tag.size() && step >= 0 && step < 100'000'000;
  if (path.filename() != "mp_rank_00_model_states.pt" || !numbered) return path;
  return path.parent_path().parent_path() / "ckpt" / step_name(step);
}

}  // namespace

std::vector<Node> in_own_words(const Node& root) {
  const Entry* imagenet = find(root, kImagenet);
  if (imagenet == nullptr) return {root};
  require_keys(*imagenet, {"train", "val"});
  evaluation_of(root);  // a mistake in it is one today, not when training is over
  Node own = root;
  for (const auto& [theirs, ours] : kWords)
    if (std::optional<Entry> entry = take(own, theirs)) put(own, ours, *std::move(entry), theirs);
  move_output(own);
  for (const char* done : {kImagenet, "eval"}) take(own, done);
  const std::string implied = str(imagenet->mark.text(), " (", kImagenet, ")");
  return {document::parse_yaml(kScript, std::make_shared<document::Origin>(document::Origin{implied, false})), own};
}

EvaluationKeys evaluation_of(const Node& root) {
  EvaluationKeys said;
  if (const Entry* data = find(root, "data"))
    if (const Entry* word = find(data->value, "on_corrupt")) {
      constexpr auto kChoices = words_of(OnCorrupt{});
      said.on_corrupt = word->value.text;
      if (std::ranges::find(kChoices, std::string_view(said.on_corrupt)) == kChoices.end())
        fail_at(word->value.mark, "data.on_corrupt must be error or skip, found ", quoted(document::flow(word->value)));
    }
  const Entry* block = find(root, "eval");
  if (block == nullptr) return said;
  require_keys(*block, {"ckpt_path", "batch_size", "max_eval"});
  said.batch_size = count_of(block->value, "batch_size", 1);
  if (const Entry* path = find(block->value, "ckpt_path")) {
    if (path->value.kind != Kind::text)
      fail_at(path->value.mark, "eval.ckpt_path expects text, found ", quoted(document::flow(path->value)));
    said.checkpoint = own_checkpoint(path->value.text);
  }
  // The script looks after a batch whether it counts more than max_eval, from 0: two more than that are read.
  const auto last = count_of(block->value, "max_eval", 0);
  if (last && !said.batch_size)
    fail_at(block->mark, "eval.max_eval counts batches, and there is no eval.batch_size; add it or remove max_eval");
  if (last) said.max_images = (*last + 2) * *said.batch_size;
  return said;
}

}  // namespace ct
