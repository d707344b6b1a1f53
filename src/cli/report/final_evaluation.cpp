#include "cli/report/final_evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "metrics/png.h"
#include "train/run/evaluation_files.h"
#include "train/run/run_files.h"

namespace ct::report {
namespace {

constexpr size_t kMostClasses = 1 << 16, kMostPairs = 1 << 20, kMostBins = 100, kMostAnswers = 5;
constexpr uint64_t kMostBytes = 32 << 20, kMostSheetBytes = 2 << 20;

const Tree& list_in(const Tree& object, const char* key) {
  static const Tree kEmpty = Tree::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kEmpty;
}

/// A share of 0 to 1, or NaN.
double share_in(const Tree& object, const char* key) {
  const double share = number_in(object, key);
  return share >= 0 && share <= 1 ? share : kNone;
}

/// Reads the parts of the file; a part that is not as the program writes it is left out and noted.
class Reader {
 public:
  Reader(const Tree& record, FinalEvaluation& to, std::vector<std::string>& missing)
      : record_(record), to_(to), missing_(missing) {}

  void read() {
    to_.step = count_in(record_, "step");
    to_.images = std::max<int64_t>(count_in(record_, "images"), 0);
    to_.split = text_in(record_, "split");
    to_.loss = number_in(record_, "loss");
    to_.accuracy = share_in(record_, "accuracy");
    part("classes", [&] { return read_classes(); });
    part("confusion", [&] { return read_confusion(); });
    part("calibration", [&] { return read_bins(); });
    part("right", [&] { return read_pictures("right", /*are_right=*/true, to_.right); });
    part("wrong", [&] { return read_pictures("wrong", /*are_right=*/false, to_.wrong); });
    if (!to_.confusion.empty()) compare_with_confusion();
  }

 private:
  template <class Read>
  void part(const char* name, const Read& read) {
    if (!read()) missing_.push_back(str(kEvaluationFile, ": \"", name, "\" is damaged"));
  }

  bool read_classes() {
    for (const Tree& one : list_in(record_, "classes")) {
      if (!one.is_object() || to_.classes.size() == kMostClasses) return false;
      to_.classes.push_back({text_in(one, "name"), count_in(one, "images"), count_in(one, "predicted"),
                             share_in(one, "precision"), share_in(one, "recall"), share_in(one, "f1")});
      if (to_.classes.back().images < 0 || to_.classes.back().predicted < 0) return to_.classes.pop_back(), false;
    }
    return !to_.classes.empty();
  }

  /// A class's number; none: it is no class.
  std::optional<size_t> class_of(const Tree& value) const {
    if (!value.is_number_integer()) return {};
    const double number = value.get<double>();
    if (!(number >= 0 && number < static_cast<double>(to_.classes.size()))) return {};
    return static_cast<size_t>(number);
  }

  bool read_confusion() {
    for (const Tree& one : list_in(record_, "confusion")) {
      if (!one.is_array() || one.size() != 3 || to_.confusion.size() == kMostPairs) return false;
      const std::optional<size_t> label = class_of(one[0]), predicted = class_of(one[1]);
      const double images = one[2].is_number_integer() ? one[2].get<double>() : -1;
      if (!label || !predicted || !(images > 0 && images < 1e12)) return false;
      to_.confusion.push_back({*label, *predicted, static_cast<int64_t>(images)});
    }
    return !to_.confusion.empty() || to_.images == 0;
  }

  /// The matrix says again what other parts say.
  void compare_with_confusion() {
    struct Counts {
      int64_t images = 0, predicted = 0, right = 0;
    };
    std::vector<Counts> classes(to_.classes.size());
    Counts all;
    for (const FinalEvaluation::Pair& pair : to_.confusion) {
      const int64_t right = pair.label == pair.predicted ? pair.images : 0;
      all.images += pair.images;
      all.right += right;
      classes[pair.label].images += pair.images;
      classes[pair.label].right += right;
      classes[pair.predicted].predicted += pair.images;
    }
    const auto is_share = [](double share, int64_t part, int64_t of) {
      return of == 0 || std::abs(share * static_cast<double>(of) - static_cast<double>(part)) < 0.5;
    };
    bool classes_agree = true;
    for (size_t c = 0; c < classes.size(); ++c) {
      const FinalEvaluation::Class& said = to_.classes[c];
      const auto& [images, predicted, right] = classes[c];
      classes_agree &= said.images == images && said.predicted == predicted && is_share(said.recall, right, images) &&
                       is_share(said.precision, right, predicted);
    }
    const auto require = [&](bool agrees, const char* name) {
      if (!agrees) missing_.push_back(str(kEvaluationFile, ": \"", name, "\" contradicts \"confusion\""));
    };
    require(to_.images == all.images, "images");
    require(is_share(to_.accuracy, all.right, all.images), "accuracy");
    require(classes_agree, "classes");
  }

  bool read_bins() {
    const auto found = record_.find("calibration");
    if (found == record_.end() || !found->is_object()) return false;
    to_.ece = share_in(*found, "ece");
    for (const Tree& one : list_in(*found, "bins")) {
      const int64_t images = one.is_object() ? count_in(one, "images") : -1,
                    correct = one.is_object() ? count_in(one, "correct") : -1;
      if (images < 0 || correct < 0 || correct > images || to_.bins.size() == kMostBins) return to_.bins.clear(), false;
      to_.bins.push_back({images, share_in(one, "probability"),
                          images > 0 ? static_cast<double>(correct) / static_cast<double>(images) : kNone});
    }
    return !to_.bins.empty();
  }

  bool read_pictures(const char* key, bool are_right, std::vector<FinalEvaluation::Picture>& pictures) {
    const auto found = record_.find(key);
    if (found == record_.end() || !found->is_array()) return false;
    for (const Tree& one : *found) {
      if (!one.is_object() || pictures.size() == kShownPictures) return false;
      const auto label = one.find("label");
      const std::optional<size_t> of = label != one.end() ? class_of(*label) : std::nullopt;
      if (!of || count_in(one, "image") < 0) return false;
      FinalEvaluation::Picture picture{count_in(one, "image"), *of, share_in(one, "label_probability"), {}};
      for (const Tree& answer : list_in(one, "answers")) {
        const auto number = answer.is_object() ? answer.find("class") : answer.end();
        const std::optional<size_t> said = number != answer.end() ? class_of(*number) : std::nullopt;
        if (!said || picture.answers.size() == kMostAnswers) return false;
        picture.answers.push_back({*said, share_in(answer, "probability")});
        if (std::isnan(picture.answers.back().probability)) return false;
      }
      if (picture.answers.empty() || (picture.answers.front().answer == picture.label) != are_right) return false;
      pictures.push_back(std::move(picture));
    }
    return true;
  }

  const Tree& record_;
  FinalEvaluation& to_;
  std::vector<std::string>& missing_;
};

/// The sheet, if it is the one that the record is of.
void read_sheet(const Path& path, const Tree& record, FinalEvaluation& to) {
  const auto found = record.find("pictures");
  if (found == record.end() || !found->is_object()) return;  // of images that are no pictures
  const std::string png = read_file(path, kMostSheetBytes);
  const int64_t columns = count_in(*found, "columns"), width = count_in(*found, "width"),
                height = count_in(*found, "height");
  const bool fits = columns == kSheetColumns && width > 0 && width <= kLargestPicture && height > 0 &&
                    height <= kLargestPicture && is_png_by(png, kProgramName);
  if (!fits || crc_text(crc32c(png)) != text_in(*found, "crc32c"))
    fail(ExitCode::data, "it does not belong to ", kEvaluationFile, ", or is damaged");
  to.sheet = png;
  to.columns = columns;
  to.width = width;
  to.height = height;
}

}  // namespace

std::optional<FinalEvaluation> read_evaluation(const Path& folder, std::vector<std::string>& missing) {
  const Path path = folder / kEvaluationFile;
  std::optional<FinalEvaluation> evaluation;
  std::string_view part = kEvaluationFile;
  try {
    if (!is_there(path)) return {};
    const std::string text = read_file(path, kMostBytes);
    const Tree record = shallow_json(text);
    constexpr std::string_view kFormat = "cifar-train evaluation ";
    if (const std::string format = text_in(record, "format"); format.starts_with(kFormat) && format != str(kFormat, 1))
      fail(ExitCode::data, "a newer version of cifar-train wrote it: make the report with that version");
    if (!text.starts_with(kEvaluationBeginning) || !record.is_object())
      fail(ExitCode::data, "it is not as a run writes it");
    Reader(record, evaluation.emplace(), missing).read();
    part = kPicturesFile;
    read_sheet(folder / kPicturesFile, record, *evaluation);
  } catch (const Error& error) {
    if (error.code() == ExitCode::memory) throw;
    missing.push_back(str(part, ": ", error.what()));
  }
  return evaluation;
}

}  // namespace ct::report
