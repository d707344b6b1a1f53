#include "data/cifar/python/pickled_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "data/cifar/cifar_set.h"

namespace ct {
namespace {

// Opcodes, as Python's pickletools names them.
constexpr uint8_t kProto = 0x80, kStop = '.', kMark = '(', kEmptyDict = '}', kSetItems = 'u', kEmptyList = ']',
                  kAppends = 'e', kBinPut = 'q', kLongBinPut = 'r', kBinGet = 'h', kLongBinGet = 'j',
                  kShortBinString = 'U', kBinString = 'T', kBinUnicode = 'X', kBinInt1 = 'K', kBinInt2 = 'M',
                  kBinInt = 'J', kPythonNone = 'N', kNewTrue = 0x88, kNewFalse = 0x89, kGlobal = 'c', kTuple = 't',
                  kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87, kReduce = 'R', kBuild = 'b';

/// Goes through a pickle from front to back; each member takes one thing that must come next.
class PickleReader {
 public:
  explicit PickleReader(std::span<const std::byte> file) : file_(file) {}

  /// A dict with string keys and nothing behind it; `value(key)` takes each value.
  template <class Value>
  void whole_dict(Value value) {
    take(kProto, "a pickle");
    if (const int64_t version = number(1); version != 2) fail_here("protocol ", version, ", not 2");
    take(kEmptyDict, "a dict");
    put();
    std::set<std::string, std::less<>> seen;
    while (next() == kMark) {
      take(kMark, "entries");
      while (next() != kSetItems) {
        const std::string_view key = text("a key");
        if (!seen.emplace(key).second) fail_here("the key ", in_quotes(key), " a second time");
        value(key);
      }
      take(kSetItems, "the end of the entries");
    }
    take(kStop, "the end");
    if (at_ != file_.size()) fail_here(file_.size() - at_, " bytes after its end");
  }

  std::string_view text(const char* what) {
    const auto bytes = operand({{kShortBinString, 1}, {kBinString, 4}, {kBinUnicode, 4}});
    if (!bytes) fail_opcode(what);
    const auto at = raw(static_cast<size_t>(*bytes));
    put();
    return {reinterpret_cast<const char*>(at.data()), at.size()};
  }
  /// A string that nobody needs; one that was there before stands as its number.
  void skip_text() {
    if (!operand({{kBinGet, 1}, {kLongBinGet, 4}})) text("a string");
  }
  void exactly(std::string_view expected) {
    const size_t begin = at_;
    if (text("a string") == expected) return;
    at_ = begin;
    fail_here("a string other than '", expected, "'");
  }

  int64_t whole_number(const char* what) {
    if (const auto value = operand({{kBinInt1, 1}, {kBinInt2, 2}})) return *value;
    if (const auto value = operand({{kBinInt, 4}})) return static_cast<int32_t>(*value);
    fail_opcode(what);
  }

  /// `item()` takes each.
  template <class Item>
  void list(Item item) {
    take(kEmptyList, "a list");
    put();
    while (next() == kMark) {
      take(kMark, "items");
      while (next() != kAppends) item();
      take(kAppends, "the end of the items");
    }
  }

  /// A numpy array of `columns` bytes per row: the call that makes an empty one, then its state.
  PickledBatch array(int64_t columns) {
    global("numpy.core.multiarray", "_reconstruct");
    global("numpy", "ndarray");
    whole_number("a shape");
    end(kTuple1);
    exactly("b");
    end(kTuple3);
    end(kReduce);
    take(kMark, "an array's state");
    whole_number("a version");
    const int64_t rows = whole_number("the number of rows");
    if (const int64_t found = whole_number("the number of columns"); rows < 1 || found != columns)
      fail_here("an array of ", rows, " x ", found, ", not of ", columns, " columns");
    end(kTuple2);
    element_type();
    if (!is_flag()) fail_opcode("true or false");
    PickledBatch batch{.by_columns = next() == kNewTrue};
    ++at_;
    const std::string_view bytes = text("an array's bytes");
    if (bytes.size() != static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns))
      fail_here(bytes.size(), " bytes for an array of ", rows, " x ", columns);
    batch.pixels = std::as_bytes(std::span(bytes));
    end(kTuple);
    end(kBuild);
    return batch;
  }

  template <class... Parts>
  [[noreturn]] void fail_here(const Parts&... parts) const {
    fail(ExitCode::data, "not a file of CIFAR's python archive: at byte ", at_, " ", parts...);
  }

 private:
  uint8_t next() const {
    if (at_ >= file_.size()) fail_here("it is truncated");
    return std::to_integer<uint8_t>(file_[at_]);
  }
  void take(uint8_t opcode, const char* what) {
    if (next() != opcode) fail_opcode(what);
    ++at_;
  }
  [[noreturn]] void fail_opcode(const char* wanted) const {
    fail_here(fmt::format("opcode 0x{:02x} instead of {}", next(), wanted));
  }
  std::span<const std::byte> raw(size_t bytes) {
    if (bytes > file_.size() - at_) fail_here("it is truncated: ", bytes, " bytes should follow");
    const auto found = file_.subspan(at_, bytes);
    at_ += bytes;
    return found;
  }
  /// Little-endian, without a sign.
  int64_t number(size_t bytes) {
    int64_t value = 0;
    const auto found = raw(bytes);
    for (size_t i = bytes; i-- > 0;) value = value << 8 | std::to_integer<int64_t>(found[i]);
    return value;
  }
  /// The number behind the next opcode, if that is one of these, of so many bytes.
  std::optional<int64_t> operand(std::initializer_list<std::pair<uint8_t, size_t>> opcodes) {
    for (const auto& [opcode, bytes] : opcodes)
      if (next() == opcode) return ++at_, number(bytes);
    return std::nullopt;
  }
  /// What was just made may get a number by which it could be meant again.
  void put() {
    while (at_ < file_.size() && operand({{kBinPut, 1}, {kLongBinPut, 4}})) continue;
  }
  /// Of a tuple, or of an array or its type.
  void end(uint8_t opcode) {
    take(opcode, "the end of a tuple, an array or its type");
    put();
  }
  bool is_flag() const { return next() == kNewTrue || next() == kNewFalse; }
  std::string_view line() {
    const size_t begin = at_;
    while (next() != '\n') ++at_;
    ++at_;
    return {reinterpret_cast<const char*>(file_.data()) + begin, at_ - 1 - begin};
  }
  void global(std::string_view module, std::string_view name) {
    const size_t begin = at_;
    take(kGlobal, "a name of numpy's");
    if (line() == module && line() == name) return put();
    at_ = begin;
    fail_here("a name other than ", module, ".", name);
  }
  /// numpy's dtype of bytes: its name and two numbers or flags, then its state.
  void element_type() {
    global("numpy", "dtype");
    exactly("u1");
    for (int i = 0; i < 2; ++i)
      if (is_flag())
        ++at_;
      else
        whole_number("a number");
    end(kTuple3);
    end(kReduce);
    take(kMark, "a type's state");
    whole_number("a version");
    exactly("|");
    while (next() != kTuple)
      if (next() == kPythonNone)
        ++at_;
      else
        whole_number("a type's state");
    end(kTuple);
    end(kBuild);
  }

  std::span<const std::byte> file_;
  size_t at_ = 0;
};

void read_labels(PickleReader& reader, int classes, std::vector<uint8_t>& labels) {
  reader.list([&] {
    const int64_t label = reader.whole_number("a label");
    if (label < 0 || label >= classes) reader.fail_here("label ", label, ", the classes are 0 to ", classes - 1);
    labels.push_back(static_cast<uint8_t>(label));
  });
}

/// `labels` reads what is under another key than those that all batches have; false: it does not know the key.
template <class Labels>
PickledBatch read_batch(PickleReader& reader, Labels labels) {
  PickledBatch batch;
  reader.whole_dict([&](std::string_view key) {
    if (key == "batch_label") {
      reader.skip_text();
    } else if (key == "filenames") {
      reader.list([&] { reader.skip_text(); });
    } else if (key == "data") {
      batch = reader.array(kImageBytes);
    } else if (!labels(key)) {
      reader.fail_here("the key ", in_quotes(key), ", which such a file does not have");
    }
  });
  return batch;
}

void require_labels(const PickleReader& reader, const PickledBatch& batch, size_t labels) {
  if (batch.pixels.empty() || batch.pixels.size() != labels * kImageBytes)
    reader.fail_here(labels, " labels for ", batch.pixels.size() / kImageBytes, " images");
}

/// The names under `wanted`, of a dict that may have the lists of names and the numbers `known`.
std::vector<std::string> read_names(PickleReader& reader, std::string_view wanted,
                                    std::initializer_list<std::string_view> lists, size_t classes) {
  std::vector<std::string> names;
  reader.whole_dict([&](std::string_view key) {
    if (key == "num_cases_per_batch" || key == "num_vis") {
      reader.whole_number("a number");
    } else if (std::ranges::find(lists, key) != lists.end()) {
      reader.list([&] {
        const std::string_view name = reader.text("a name");
        if (key != wanted) return;
        names.emplace_back(name);
        if (name.empty()) reader.fail_here("an empty class name");
        if (names.size() > classes) reader.fail_here("more than ", classes, " class names");
      });
    } else {
      reader.fail_here("the key ", in_quotes(key), ", which such a file does not have");
    }
  });
  if (names.size() != classes) reader.fail_here(names.size(), " class names, not ", classes);
  return names;
}

}  // namespace

PickledBatch read_pickled_batch(std::span<const std::byte> file) {
  PickleReader reader(file);
  std::vector<uint8_t> labels;
  PickledBatch batch = read_batch(reader, [&](std::string_view key) {
    if (key == "labels") read_labels(reader, kCifarClasses, labels);
    return key == "labels";
  });
  require_labels(reader, batch, labels.size());
  batch.labels = std::move(labels);
  return batch;
}

PickledBatch100 read_pickled_batch_100(std::span<const std::byte> file) {
  PickleReader reader(file);
  PickledBatch100 result;
  const PickledBatch batch = read_batch(reader, [&](std::string_view key) {
    const bool fine = key == "fine_labels", coarse = key == "coarse_labels";
    if (fine) read_labels(reader, 100, result.fine);
    if (coarse) read_labels(reader, 20, result.coarse);
    return fine || coarse;
  });
  for (const size_t labels : {result.fine.size(), result.coarse.size()}) require_labels(reader, batch, labels);
  result.pixels = batch.pixels;
  result.by_columns = batch.by_columns;
  return result;
}

std::vector<std::string> read_pickled_names(std::span<const std::byte> file) {
  PickleReader reader(file);
  return read_names(reader, "label_names", {"label_names"}, kCifarClasses);
}

std::vector<std::string> read_pickled_names_100(std::span<const std::byte> file, bool coarse) {
  PickleReader reader(file);
  return read_names(reader, coarse ? "coarse_label_names" : "fine_label_names",
                    {"fine_label_names", "coarse_label_names"}, coarse ? 20 : 100);
}

}  // namespace ct
