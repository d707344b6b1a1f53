#include "checkpoint/torch/pickle.h"

#include <cstring>
#include <map>
#include <optional>

namespace ct {
namespace {

// Opcodes, as Python's pickletools names them.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kBinFloat = 'G',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

std::optional<StoredType> storage_type(std::string_view global) {
  static const std::map<std::string_view, StoredType> kTypes = {
      {"torch.FloatStorage", StoredType::f32}, {"torch.DoubleStorage", StoredType::f64},
      {"torch.HalfStorage", StoredType::f16},  {"torch.BFloat16Storage", StoredType::bf16},
      {"torch.ByteStorage", StoredType::u8},   {"torch.BoolStorage", StoredType::u8},
      {"torch.IntStorage", StoredType::i32},   {"torch.LongStorage", StoredType::i64}};
  const auto at = kTypes.find(global);
  return at == kTypes.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace

/// The stack machine.
class PickleMachine {
 public:
  PickleMachine(Pickle& to, std::span<const std::byte> code, const Path& path) : to_(to), code_(code), path_(path) {}

  void run() {
    while (step()) continue;
    to_.value_ = pop();
  }

 private:
  [[noreturn]] void fail_damaged() const {
    ct::fail(ExitCode::checkpoint, in_quotes(path_.native()), ": its pickle is damaged at byte ", at_,
             "; use another copy of it");
  }
  [[noreturn]] void refuse(const std::string& global) const {
    ct::fail(ExitCode::checkpoint, in_quotes(path_.native()), " needs ", in_quotes(global),
             " to be called, and no code of a file is run here: save the state_dict alone, with torch.save(model."
             "state_dict(), 'W.pth')");
  }

  std::span<const std::byte> take(uint64_t bytes) {
    if (bytes > code_.size() - at_) fail_damaged();
    const auto part = code_.subspan(at_, bytes);
    at_ += bytes;
    return part;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text(uint64_t bytes) {
    const auto part = take(bytes);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string_view line() {
    const size_t begin = at_;
    while (number<char>() != '\n') continue;
    return {reinterpret_cast<const char*>(code_.data()) + begin, at_ - begin - 1};
  }

  void push(PickleValue value) {
    spend(sizeof value);
    stack_.push_back(std::move(value));
  }
  /// Counts memory that is taken, whether or not it is given back before the end. A byte of a pickle may take hundreds;
  /// those of ResNet-152 and its Adam take 4 MiB.
  void spend(uint64_t bytes) {
    constexpr uint64_t kMost = 16 << 20;
    if ((spent_ += bytes) > kMost)
      ct::fail(ExitCode::checkpoint, in_quotes(path_.native()),
               ": its pickle builds too much for names and shapes: save the state_dict alone, with torch.save(model."
               "state_dict(), 'W.pth')");
  }
  void remember(uint64_t place, const PickleValue& value) {
    constexpr uint64_t kOfNode = 48;  // beside the value
    spend(sizeof value + kOfNode);
    memo_[place] = value;
  }
  PickleValue pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail_damaged();
    PickleValue value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  const PickleValue& top() const {
    if (stack_.empty()) fail_damaged();
    return stack_.back();
  }
  /// What lies above the last mark, which goes too.
  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) fail_damaged();
    const auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<PickleValue> items(std::make_move_iterator(begin), std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  template <class T>
  T as(const PickleValue& value) const {
    if (const T* is = std::get_if<T>(&value)) return *is;
    fail_damaged();
  }

  PickleList* new_list(std::vector<PickleValue> items = {}) {
    spend(sizeof(PickleList));
    return &to_.lists_.emplace_back(std::move(items));
  }
  PickleDict* new_dict() {
    spend(sizeof(PickleDict));
    return &to_.dicts_.emplace_back();
  }
  void push_tuple(size_t count) {
    std::vector<PickleValue> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push(new_list(std::move(items)));
  }
  void append(std::vector<PickleValue> items) {
    auto& list = as<PickleList*>(top())->items;
    std::move(items.begin(), items.end(), std::back_inserter(list));
  }
  void set(std::vector<PickleValue> items) {
    if (items.size() % 2 != 0) fail_damaged();
    auto& dict = as<PickleDict*>(top())->items;
    for (size_t i = 0; i < items.size(); i += 2) dict.emplace_back(std::move(items[i]), std::move(items[i + 1]));
  }
  void get(uint64_t place) {
    const auto at = memo_.find(place);
    if (at == memo_.end()) fail_damaged();
    push(at->second);
  }

  /// ('storage', class, key, device, elements)
  PickledStorage storage(const PickleValue& id) const {
    const auto& items = as<PickleList*>(id)->items;
    if (items.size() != 5 || as<std::string_view>(items[0]) != "storage") fail_damaged();
    const std::string global = name_of(as<PickledGlobal>(items[1]));
    const auto dtype = storage_type(global);
    if (!dtype)
      ct::fail(ExitCode::checkpoint, in_quotes(path_.native()), " has elements of ", in_quotes(global),
               ", which no tensor here can take: convert them to float32");
    return {*dtype, as<std::string_view>(items[2])};
  }
  static std::string name_of(const PickledGlobal& global) { return str(global.module, ".", global.name); }
  std::vector<int64_t> sizes(const PickleValue& value) const {
    constexpr size_t kMostDimensions = 64;  // PyTorch's
    const auto& items = as<PickleList*>(value)->items;
    if (items.size() > kMostDimensions) fail_damaged();
    std::vector<int64_t> all;
    for (const PickleValue& item : items) all.push_back(as<int64_t>(item));
    return all;
  }
  /// The call of a constructor.
  PickleValue called(const std::string& global, const std::vector<PickleValue>& args) {
    if (global == "torch._utils._rebuild_tensor_v2") {  // storage, offset, size, stride, ...
      if (args.size() < 4) fail_damaged();
      PickledTensor tensor{as<PickledStorage>(args[0]), as<int64_t>(args[1]), sizes(args[2]), sizes(args[3])};
      spend(sizeof tensor + (tensor.shape.size() + tensor.strides.size()) * sizeof(int64_t));
      return std::make_shared<const PickledTensor>(std::move(tensor));
    }
    if (global == "torch._utils._rebuild_parameter") {  // tensor, ...
      if (args.empty()) fail_damaged();
      return as<std::shared_ptr<const PickledTensor>>(args[0]);
    }
    if (global == "torch.Size" && args.size() == 1) return as<PickleList*>(args[0]);
    if (global == "torch.device") return PickledOther{};
    if (global == "collections.OrderedDict" && args.empty()) return new_dict();
    refuse(global);
  }

  bool step() {
    const auto opcode = number<uint8_t>();
    switch (opcode) {
      case kProto:
        if (number<uint8_t>() > 5) fail_damaged();
        break;
      case kFrame:
        take(sizeof(uint64_t));
        break;
      case kStop:
        return false;
      case kMark:
        spend(sizeof(size_t));
        marks_.push_back(stack_.size());
        break;
      case kPop:
        pop();
        break;
      case kNone:
        push({});
        break;
      case kNewTrue:
      case kNewFalse:
        push(opcode == kNewTrue);
        break;
      case kBinInt:
        push(int64_t{number<int32_t>()});
        break;
      case kBinInt1:
        push(int64_t{number<uint8_t>()});
        break;
      case kBinInt2:
        push(int64_t{number<uint16_t>()});
        break;
      case kLong1: {  // little-endian, two's complement
        const auto bytes = take(number<uint8_t>());
        if (bytes.size() > sizeof(int64_t)) {
          push(PickledOther{});
          break;
        }
        int64_t value = !bytes.empty() && static_cast<int8_t>(bytes.back()) < 0 ? -1 : 0;
        std::memcpy(&value, bytes.data(), bytes.size());
        push(value);
        break;
      }
      case kBinFloat: {  // big-endian
        uint64_t bits = number<uint64_t>();
        bits = __builtin_bswap64(bits);
        double value;
        std::memcpy(&value, &bits, sizeof value);
        push(value);
        break;
      }
      case kShortBinUnicode:
        push(text(number<uint8_t>()));
        break;
      case kBinUnicode:
        push(text(number<uint32_t>()));
        break;
      case kBinUnicode8:
        push(text(number<uint64_t>()));
        break;
      case kEmptyTuple:
      case kEmptyList:
        push(new_list());
        break;
      case kEmptyDict:
        push(new_dict());
        break;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        push_tuple(size_t{opcode} - kTuple1 + 1);
        break;
      case kTuple:
        push(new_list(pop_to_mark()));
        break;
      case kAppend:
        append({pop()});
        break;
      case kAppends:
        append(pop_to_mark());
        break;
      case kSetItem: {
        PickleValue value = pop(), key = pop();
        set({std::move(key), std::move(value)});
        break;
      }
      case kSetItems:
        set(pop_to_mark());
        break;
      case kBinPut:
        remember(number<uint8_t>(), top());
        break;
      case kLongBinPut:
        remember(number<uint32_t>(), top());
        break;
      case kMemoize:
        remember(memo_.size(), top());
        break;
      case kBinGet:
        get(number<uint8_t>());
        break;
      case kLongBinGet:
        get(number<uint32_t>());
        break;
      case kGlobal: {
        const std::string_view module = line();
        push(PickledGlobal{module, line()});
        break;
      }
      case kStackGlobal: {
        const auto name = as<std::string_view>(pop()), module = as<std::string_view>(pop());
        push(PickledGlobal{module, name});
        break;
      }
      case kBinPersId:
        push(storage(pop()));
        break;
      case kReduce: {
        const PickleValue args = pop(), function = pop();
        push(called(name_of(as<PickledGlobal>(function)), as<PickleList*>(args)->items));
        break;
      }
      case kNewObj: {
        pop();
        refuse(name_of(as<PickledGlobal>(pop())));
      }
      case kBuild:  // attributes, such as the _metadata of a state_dict
        pop();
        break;
      default:
        fail_damaged();
    }
    return true;
  }

  Pickle& to_;
  std::span<const std::byte> code_;
  const Path& path_;
  size_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::map<uint64_t, PickleValue> memo_;
  uint64_t spent_ = 0;
};

Pickle::Pickle(std::span<const std::byte> pickle, const Path& path) {
  constexpr size_t kMostBytes = 16 << 20;
  if (pickle.size() > kMostBytes)
    fail(ExitCode::checkpoint, in_quotes(path.native()), ": its pickle has ", pickle.size(),
         " bytes, too many for names and shapes: save the state_dict alone, with torch.save(model.state_dict(), "
         "'W.pth')");
  PickleMachine(*this, pickle, path).run();
}

}  // namespace ct
