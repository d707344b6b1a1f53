// YAML through yaml-cpp's events: its own document tree has already forgotten duplicate keys, quotes and anchors.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "train/config/document.h"

namespace ct::document {
namespace {

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::shared_ptr<const Origin> origin) : origin_(std::move(origin)) {
    root_.mark = {origin_, 1, 1};
  }

  Node take() { return std::move(root_); }
  Mark mark(const YAML::Mark& at) const { return {origin_, at.line + 1, at.column + 1}; }

  void OnDocumentStart(const YAML::Mark& at) override {
    if (documents_++ > 0) fail_at(mark(at), "a second document begins here; a configuration is one document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& at, YAML::anchor_t) override { add(plain_scalar("", mark(at)), /*closed=*/true); }
  void OnAlias(const YAML::Mark& at, YAML::anchor_t) override {
    fail_at(mark(at), "aliases ('*name') are not supported; write the value out");
  }
  void OnAnchor(const YAML::Mark& at, const std::string&) override {
    fail_at(mark(at), "anchors ('&name') are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& at, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    refuse_tag(at, tag);
    if (expects_key()) {
      if (value == "<<") fail_at(mark(at), "merge keys ('<<') are not supported; write the keys out");
      begin_key(value, mark(at));
      return;
    }
    if (tag == "!") {  // in quotes: always text
      Node node;
      node.kind = Kind::text;
      node.mark = mark(at);
      node.text = value;
      add(std::move(node), /*closed=*/true);
    } else {
      add(plain_scalar(value, mark(at)), /*closed=*/true);
    }
  }
  void OnSequenceStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(at, tag, Kind::list);
  }
  void OnMapStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(at, tag, Kind::map);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Node* node;
    bool key_read;                          // of a map: the next event is this key's value
    std::map<std::string, int> lines = {};  // of its keys
  };

  void refuse_tag(const YAML::Mark& at, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      fail_at(mark(at), "tags (", quoted(tag), ") are not supported; remove it");
  }
  bool expects_key() const {
    return !levels_.empty() && levels_.back().node->kind == Kind::map && !levels_.back().key_read;
  }

  void begin_key(const std::string& key, const Mark& at) {
    const auto [first, fresh] = levels_.back().lines.emplace(key, at.line);
    if (!fresh) fail_at(at, "key ", quoted(key), " appears twice, first in line ", first->second, "; remove one");
    levels_.back().node->entries.push_back({key, at, {}});
    levels_.back().key_read = true;
  }

  /// Puts a node where the next value belongs; a list or map stays open until close().
  void add(Node node, bool closed) {
    if (expects_key()) fail_at(node.mark, "is not valid YAML: a key must be a word; is a bracket or quote left open?");
    Node* place = &root_;
    if (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.node->kind == Kind::list) {
        level.node->items.emplace_back();
        place = &level.node->items.back();
      } else {
        place = &level.node->entries.back().value;
        level.key_read = false;
      }
    }
    *place = std::move(node);
    // The pointer stays valid: an enclosing list or map grows only after this level is closed.
    if (!closed) levels_.push_back({.node = place, .key_read = false});
  }
  void open(const YAML::Mark& at, const std::string& tag, Kind kind) {
    refuse_tag(at, tag);
    if (levels_.size() >= kMaxDepth) fail_at(mark(at), "is nested more than ", kMaxDepth, " deep");
    Node node;
    node.kind = kind;
    node.mark = mark(at);
    add(std::move(node), /*closed=*/false);
  }
  void close() { levels_.pop_back(); }

  std::shared_ptr<const Origin> origin_;
  Node root_;
  std::vector<Level> levels_;
  int documents_ = 0;
};

}  // namespace

Node parse_yaml(const std::string& text, std::shared_ptr<const Origin> origin) {
  TreeBuilder tree(std::move(origin));
  try {
    // yaml-cpp takes a quote that is never closed for text up to the end, unless a document's end stops it.
    std::istringstream in(text + "\n...\n");
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(tree)) {
    }
  } catch (const YAML::Exception& error) {
    fail_at(tree.mark(error.mark), "is not valid YAML: ", error.msg);
  }
  return tree.take();
}

}  // namespace ct::document
