#include "cli/report/run_records.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "metrics/metrics_log.h"

namespace ct::report {
namespace {

constexpr int64_t kMostSteps = 1'000'000'000'000;

/// What records of steps, epochs and evaluations consist of.
struct Fields {
  std::string_view event, split;
  double step = kNone, epoch = kNone, loss = kNone, lr = kNone, grad_norm = kNone, samples_per_sec = kNone,
         wait_fraction = kNone, accuracy = kNone, top5 = kNone, images = kNone;

  double* number(std::string_view key) {
    if (key == "step") return &step;
    if (key == "epoch") return &epoch;
    if (key == "loss") return &loss;
    if (key == "lr") return &lr;
    if (key == "grad_norm") return &grad_norm;
    if (key == "samples_per_sec") return &samples_per_sec;
    if (key == "wait_fraction") return &wait_fraction;
    if (key == "accuracy") return &accuracy;
    if (key == "top5") return &top5;
    if (key == "images") return &images;
    return nullptr;
  }
};

/// Reads a line such as {"event":"step","step":120,"loss":1.25}, whose values are numbers, null, and texts without
/// escapes: nearly all lines of a run are such, and a general reader would take most of a report's time.
class FlatLine {
 public:
  explicit FlatLine(std::string_view line) : at_(line.data()), end_(at_ + line.size()) {}

  /// nullopt: it is another kind of line.
  std::optional<Fields> read() {
    Fields fields;
    if (!take('{')) return {};
    do {
      const std::optional<std::string_view> key = text();
      if (!key || !take(':') || !value(*key, fields)) return {};
    } while (take(','));
    if (!take('}')) return {};
    skip_blanks();
    return at_ == end_ ? std::optional(fields) : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char wanted) {
    skip_blanks();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  std::optional<std::string_view> text() {
    if (!take('"')) return {};
    const char* const begin = at_;
    while (at_ < end_ && *at_ != '"' && *at_ != '\\') ++at_;
    if (at_ == end_ || *at_ == '\\') return {};
    return std::string_view(begin, static_cast<size_t>(at_++ - begin));
  }
  bool value(std::string_view key, Fields& fields) {
    skip_blanks();
    if (at_ == end_) return false;
    if (*at_ == '"') {
      const std::optional<std::string_view> found = text();
      if (found && key == "event") fields.event = *found;
      if (found && key == "split") fields.split = *found;
      return found.has_value();
    }
    if (std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with("null")) {
      at_ += 4;
      return true;
    }
    if (*at_ != '-' && (*at_ < '0' || *at_ > '9')) return false;
    double number = 0;
    const auto [end, error] = std::from_chars(at_, end_, number);
    if (error != std::errc()) return false;  // 1e999, among others
    if (double* const field = fields.number(key)) *field = number;
    at_ = end;
    return true;
  }

  const char* at_;
  const char* const end_;
};

Fields fields_of(const Tree& record) {
  Fields fields;
  for (const auto& [key, value] : record.items()) {
    if (double* const field = fields.number(key); field && value.is_number()) *field = value.get<double>();
    if (!value.is_string()) continue;
    if (key == "event") fields.event = value.get_ref<const std::string&>();
    if (key == "split") fields.split = value.get_ref<const std::string&>();
  }
  return fields;
}

/// A whole number of steps, images or epochs; -1: it is none.
int64_t whole(double number) {
  return number >= 0 && number <= static_cast<double>(kMostSteps) && number == std::floor(number)
             ? static_cast<int64_t>(number)
             : -1;
}

std::optional<EvaluatedSplit> split_of(std::string_view word) {
  for (const EvaluatedSplit split : {EvaluatedSplit::train, EvaluatedSplit::val, EvaluatedSplit::test})
    if (word == word_of(split)) return split;
  return {};
}

/// Takes a record of a step, an epoch or an evaluation; false: it is damaged.
bool take_numbers(const Fields& f, RunRecords& records) {
  const int64_t step = whole(f.step), epoch = std::max<int64_t>(whole(f.epoch), 0);
  if (step < 0) return false;
  if (f.event == "step") {
    records.steps.push_back({step, epoch, drawable(f.loss), drawable(f.lr), drawable(f.grad_norm),
                             drawable(f.samples_per_sec), drawable(f.wait_fraction)});
  } else if (f.event == "epoch") {
    records.epochs.push_back({step, epoch, drawable(f.loss)});
  } else {
    const std::optional<EvaluatedSplit> split = split_of(f.split);
    if (!split || f.accuracy < 0 || f.accuracy > 1) return false;
    const auto share = [](double number) { return number >= 0 && number <= 1 ? number : kNone; };
    records.evals.push_back(
        {step, epoch, std::max<int64_t>(whole(f.images), 0), *split, drawable(f.loss), f.accuracy, share(f.top5)});
  }
  return true;
}

bool is_of_numbers(std::string_view event) { return event == "step" || event == "epoch" || event == "eval"; }

void take_classes(const Tree& record, RunRecords& records) {
  const auto found = record.find("per_class");
  if (found == record.end() || !found->is_array()) return;
  records.per_class.clear();
  for (const Tree& accuracy : *found) {
    const double number = accuracy.is_number() ? accuracy.get<double>() : kNone;
    records.per_class.push_back(number >= 0 && number <= 1 ? number : kNone);
  }
}

/// False: the line is no record.
bool take_line(std::string_view line, RunRecords& records) {
  if (const std::optional<Fields> fields = FlatLine(line).read(); fields && is_of_numbers(fields->event))
    return take_numbers(*fields, records);
  if (line.size() > kLongestRecord) return false;
  Tree record = shallow_json(line);
  if (!record.is_object()) return false;
  const Fields fields = fields_of(record);
  if (fields.event.empty()) return false;
  if (is_of_numbers(fields.event)) {
    if (!take_numbers(fields, records)) return false;
    if (fields.event == "eval") take_classes(record, records);
  } else if (fields.event == "start") {
    records.ended = false;
    ++records.starts;
    records.start = std::move(record);
  } else if (fields.event == "checkpoint") {
    records.saved = whole(fields.step);
  } else if (fields.event == "end") {
    records.ended = true;
    records.end = std::move(record);
  }
  return true;  // events that this version does not know are no damage
}

/// Returns how many of them come after a record of the same key or a later one.
template <class Record, class Key>
int64_t keep_last_of_each(std::vector<Record>& records, const Key& key) {
  const auto before = [&](const Record& a, const Record& b) { return key(a) < key(b); };
  int64_t disordered = 0;
  for (size_t i = 1; i < records.size(); ++i) disordered += before(records[i - 1], records[i]) ? 0 : 1;
  if (!std::ranges::is_sorted(records, before)) std::ranges::stable_sort(records, before);
  std::vector<Record> last;
  for (size_t i = 0; i < records.size(); ++i)
    if (i + 1 == records.size() || key(records[i]) < key(records[i + 1])) last.push_back(records[i]);
  records = std::move(last);
  return disordered;
}

}  // namespace

std::string_view word_of(EvaluatedSplit split) {
  return split == EvaluatedSplit::train ? "train" : split == EvaluatedSplit::val ? "val" : "test";
}

RunRecords read_records(std::string_view text) {
  RunRecords records;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (!take_line(line, records)) ++records.damaged;
  }
  records.cut = !text.empty() && !take_line(text, records);
  records.disordered = keep_last_of_each(records.steps, [](const StepRecord& r) { return r.step; }) +
                       keep_last_of_each(records.epochs, [](const EpochRecord& r) { return r.step; });
  keep_last_of_each(records.evals, [](const EvalRecord& r) { return std::pair(r.step, r.split); });
  return records;
}

Tree shallow_json(std::string_view text) {
  constexpr int kDeepest = 32;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kDeepest) return {};
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
  Tree json = Tree::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? Tree() : json;
}

double number_in(const Tree& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? drawable(found->get<double>()) : kNone;
}

std::string text_in(const Tree& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t count_in(const Tree& object, const char* key) { return whole(number_in(object, key)); }

const Tree& child(const Tree& object, const char* key) {
  static const Tree kNothing;
  const auto found = object.find(key);
  return found != object.end() ? *found : kNothing;
}

double drawable(double number) {
  constexpr double kLargest = 1e100;
  if (!(std::abs(number) <= kLargest)) return kNone;
  return std::abs(number) < 1 / kLargest ? 0 : number;
}

}  // namespace ct::report
