#include "train/run/evaluation_files.h"

#include <algorithm>

#include "base/crc32c.h"
#include "metrics/calibration.h"
#include "metrics/class_scores.h"
#include "metrics/png.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

/// The probability of what was answered.
float confidence(const Evaluation::Opinion& o) {
  for (size_t k = 0; k < o.classes.size(); ++k)
    if (o.classes[k] == o.predicted) return o.probabilities[k];
  return 0;
}

Json picture_record(const Evaluation::Opinion& o, uint32_t image) {
  Json classes = Json::array();
  for (size_t k = 0; k < o.classes.size(); ++k)
    if (o.classes[k] >= 0) classes.push_back({{"class", o.classes[k]}, {"probability", o.probabilities[k]}});
  return {{"image", image}, {"label", o.label}, {"label_probability", o.label_probability}, {"answers", classes}};
}

/// Draws a picture at its place of the sheet, [height][width][channels].
class Sheet {
 public:
  Sheet(const SampleShape& shape, size_t pictures) : shape_(shape) {
    const SmallPicture first = small_picture(std::vector<uint8_t>(shape.bytes()), shape, kLargestPicture);
    height_ = first.height;
    width_ = first.width;
    const auto rows = (static_cast<int64_t>(pictures) + kSheetColumns - 1) / kSheetColumns;
    pixels_.resize(static_cast<size_t>(rows * height_ * row_bytes()));
  }
  void draw(size_t place, std::span<const uint8_t> pixels) {
    const SmallPicture small = small_picture(pixels, shape_, kLargestPicture);
    const auto at = static_cast<int64_t>(place);
    for (int64_t y = 0; y < height_; ++y)
      std::copy_n(small.pixels.begin() + y * width_ * shape_.channels, width_ * shape_.channels,
                  pixels_.begin() + (at / kSheetColumns * height_ + y) * row_bytes() +
                      at % kSheetColumns * width_ * shape_.channels);
  }
  std::string png() const { return png_of(pixels_, kSheetColumns * width_, shape_.channels, kProgramName); }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }

 private:
  int64_t row_bytes() const { return kSheetColumns * width_ * shape_.channels; }
  SampleShape shape_;
  int64_t height_ = 0, width_ = 0;
  std::vector<uint8_t> pixels_;
};

Json scores_of(const Confusion& confusion, const std::vector<std::string>& names) {
  Json classes = Json::array();
  const std::vector<ClassScores> scores = confusion.scores();
  for (size_t c = 0; c < scores.size(); ++c)
    classes.push_back({{"name", names[c]},
                       {"images", scores[c].support},
                       {"predicted", scores[c].predicted},
                       {"precision", scores[c].precision},
                       {"recall", scores[c].recall},
                       {"f1", scores[c].f1}});
  return classes;
}

Json calibration_of(const CalibrationError& error) {
  Json bins = Json::array();
  for (const CalibrationError::Bin& bin : error.bins()) {
    Json one = {{"images", bin.images}, {"correct", bin.correct}};
    one["probability"] = bin.images > 0 ? Json(bin.probability / static_cast<double>(bin.images)) : Json();
    bins.push_back(std::move(one));
  }
  return {{"ece", error.value()}, {"bins", bins}};
}

}  // namespace

Confident most_confident(const std::vector<Evaluation::Opinion>& opinions, size_t most) {
  Confident chosen;
  for (size_t i = 0; i < opinions.size(); ++i)
    if (opinions[i].classes[0] >= 0) (opinions[i].correct ? chosen.right : chosen.wrong).push_back(i);
  for (std::vector<size_t>* list : {&chosen.right, &chosen.wrong}) {
    const size_t kept = std::min(list->size(), most);
    std::ranges::partial_sort(*list, list->begin() + static_cast<ptrdiff_t>(kept), [&](size_t a, size_t b) {
      const float pa = confidence(opinions[a]), pb = confidence(opinions[b]);
      return pa > pb || (pa == pb && opinions[a].place < opinions[b].place);
    });
    list->resize(kept);
  }
  return chosen;
}

SmallPicture small_picture(std::span<const uint8_t> pixels, const SampleShape& shape, int64_t largest) {
  const int64_t side = (std::max(shape.height, shape.width) + largest - 1) / largest;  // of a square of pixels
  SmallPicture small{
      .height = (shape.height + side - 1) / side, .width = (shape.width + side - 1) / side, .pixels = {}};
  small.pixels.resize(static_cast<size_t>(small.height * small.width * shape.channels));
  for (int64_t y = 0; y < small.height; ++y)
    for (int64_t x = 0; x < small.width; ++x)
      for (int64_t c = 0; c < shape.channels; ++c) {
        int64_t sum = 0, count = 0;
        for (int64_t i = y * side; i < std::min((y + 1) * side, shape.height); ++i)
          for (int64_t j = x * side; j < std::min((x + 1) * side, shape.width); ++j, ++count)
            sum += pixels[static_cast<size_t>((c * shape.height + i) * shape.width + j)];
        small.pixels[static_cast<size_t>((y * small.width + x) * shape.channels + c)] =
            static_cast<uint8_t>((sum + count / 2) / count);
      }
  return small;
}

void write_evaluation(FileSystem& files, const Path& run, const Evaluation& evaluation, const EvalPipeline& images,
                      int64_t step) {
  const DataSet& set = images.set();
  Confusion confusion(set.classes());
  CalibrationError calibration;
  for (const Evaluation::Opinion& o : evaluation.opinions) {
    confusion.add(o.label, o.predicted);
    calibration.add(confidence(o), o.correct);
  }
  Json record = {{"format", "cifar-train evaluation 1"},
                 {"step", step},
                 {"split", evaluation.split},
                 {"images", evaluation.images},
                 {"loss", evaluation.loss},
                 {"accuracy", evaluation.accuracy()},
                 {"classes", scores_of(confusion, set.class_names())}};
  Json& pairs = record["confusion"] = Json::array();
  for (const Confusion::Pair& pair : confusion.pairs()) pairs.push_back({pair.label, pair.predicted, pair.images});
  record["calibration"] = calibration_of(calibration);

  const Confident chosen = most_confident(evaluation.opinions, kShownPictures);
  const size_t pictures = chosen.right.size() + chosen.wrong.size();
  const bool shown = pictures > 0 && (set.shape().channels == 1 || set.shape().channels == 3);
  std::optional<Sheet> sheet;
  if (shown) sheet.emplace(set.shape(), pictures);
  std::vector<uint8_t> pixels(set.shape().bytes());
  size_t place = 0;
  for (const auto& [name, list] : {std::pair{"right", &chosen.right}, {"wrong", &chosen.wrong}}) {
    Json& records = record[name] = Json::array();
    for (const size_t i : *list) {
      const Evaluation::Opinion& o = evaluation.opinions[i];
      const uint32_t image = images.image_at(o.place);
      records.push_back(picture_record(o, image));
      if (sheet && set.read(image, {}, pixels.data())) sheet->draw(place, pixels);
      ++place;
    }
  }
  if (sheet) {
    const std::string png = sheet->png();
    write_file_atomic(files, run / kPicturesFile, png);
    record["pictures"] = {{"file", kPicturesFile},
                          {"crc32c", crc_text(crc32c(png))},
                          {"columns", kSheetColumns},
                          {"width", sheet->width()},
                          {"height", sheet->height()}};
  }
  // Names of classes are those of folders, which may be any bytes.
  write_file_atomic(files, run / kEvaluationFile, record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace ct
