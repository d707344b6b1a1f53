// Merges the sources of a configuration: determines the effective value of each key, and replaces aliases by their
// keys. Values are not parsed yet.
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
  /// Called for a faulty entry, with this program's key; the entry is then left out.
  using Complain = std::function<void(const std::string& key, const document::Entry& entry, const Error& error)>;

  /// Without `complain` faults are thrown.
  explicit Merge(Complain complain = {});

  void add_file(const document::Node& root);
  /// Before a file is added, drops values that belong to keys of that file: the schedule if it has an optimizer, batch
  /// sizes if it has one; and the images that are held out, which such a file knows nothing of.
  void give_way_to(const document::Node& root);
  void add_override(const ConfigOverride& word);

  /// By dotted key.
  const std::map<std::string, document::Node>& values() const { return values_; }
  const document::Node* find(const std::string& key) const;
  /// All keys of all types.
  const std::vector<ConfigField>& fields() const { return fields_; }
  /// The given name of a key or its block, if it was an alias, and the given value, if it differed; otherwise "".
  struct Written {
    std::string key, value;
  };
  Written written_as(const std::string& key) const;
  /// Messages for the user: deprecated names.
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
  std::vector<Config> bound_;        // targets of fields_; values are not used
  std::vector<ConfigField> fields_;  // of all types
  std::map<std::string, document::Node> values_;
  std::map<std::string, Written> other_names_;  // by this program's keys
  std::vector<std::string> remarks_;
};

/// Is this the name of a comment key, which the program ignores?
bool is_note(const std::string& name);

/// Does an absent key of this kind follow from other keys, or from the run?
bool follows(const ConfigField& field);

/// Is the value "auto", which means a value that follows from other keys, or that of an absent key? False if "auto" is
/// one of the key's own values.
bool is_left_open(const ConfigField& field, const document::Node& node);

/// Is it the type of an optimizer, a scheduler or a model, which have their own keys?
bool is_type(const ConfigField& field);

/// Is it one of optimizer.params or scheduler.params?
bool is_parameter(const std::string& key);

}  // namespace ct
