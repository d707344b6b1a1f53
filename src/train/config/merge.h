// The sources of a configuration laid over each other: which value of each key counts. Names that are another key's
// are replaced by it here; values are still unread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/config/document.h"
#include "train/config/load.h"
#include "train/config/schema.h"

namespace ct {

class Merge {
 public:
  /// Is told of an entry with which something is wrong, by its key in this program's words; it is left out then.
  using Complain = std::function<void(const std::string& key, const document::Entry& entry, const Error& error)>;

  /// Without `complain` what is wrong is thrown.
  explicit Merge(Complain complain = {});

  void add_file(const document::Node& root);
  /// Forgets, before a file is added, what belongs to something that it says for itself: the schedule to the optimizer,
  /// batch sizes to each other.
  void give_way_to(const document::Node& root);
  void add_override(const ConfigOverride& word);

  /// By dotted key.
  const std::map<std::string, document::Node>& values() const { return values_; }
  const document::Node* find(const std::string& key) const;
  /// Every key there is, with every type.
  const std::vector<ConfigField>& fields() const { return fields_; }
  /// How a key, or the block that it lies in, was called where it was given; "": so. And its value there, where that
  /// was another, too.
  struct Written {
    std::string key, value;
  };
  Written written_as(const std::string& key) const;
  /// Lines for the user: names that are given up.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  void add_layer(const document::Node& root);
  void keep_where_auto(const std::map<std::string, document::Node>& before, bool rate_stays);
  void forget(const std::string& block);
  document::Node override_value(const ConfigOverride& word,
                                const std::shared_ptr<const document::Origin>& origin) const;
  void add_path(const std::string& rest, const std::string& block, const document::Mark& mark,
                const document::Node& value);
  void add_map(const document::Node& map, const std::string& block);
  void add(const std::string& name, const std::string& block, const document::Mark& mark, const document::Node& value);
  bool add_old_form(const std::string& key, const document::Mark& mark, const document::Node& value);
  void remark(const document::Mark& mark, const std::string& old, const std::string& instead);
  std::string own_key(const std::string& block, const std::string& name, const document::Mark& mark);
  [[noreturn]] void unknown(const std::string& key, const document::Mark& mark) const;

  Complain complain_;
  std::vector<Config> bound_;        // only their keys matter here
  std::vector<ConfigField> fields_;  // of all types
  std::map<std::string, document::Node> values_;
  std::map<std::string, Written> other_names_;  // by this program's
  std::vector<std::string> remarks_;
};

/// Does the name begin a note, which says nothing to the program?
bool is_note(const std::string& name);

/// Does an absent key of this kind follow from other keys, or from the run?
bool follows(const ConfigField& field);

/// "auto" for a key: what follows from other keys, or else the value of an absent key. Where it is one of the key's own
/// values it has its own meaning.
bool is_left_open(const ConfigField& field, const document::Node& node);

/// Names an optimizer, a scheduler or a model, which have keys of their own.
bool is_type(const ConfigField& field);

/// Is it one of optimizer.params or scheduler.params?
bool is_parameter(const std::string& key);

}  // namespace ct
