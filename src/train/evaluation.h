// Evaluation: processes every image exactly once, with the same results on any number of ranks.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/pipeline.h"
#include "engine/engine.h"
#include "graph/view.h"
#include "metrics/log_format.h"
#include "metrics/metrics_log.h"
#include "train/config/choices.h"

namespace ct {

struct Evaluation {
  std::string split;  // test | train | val
  int64_t images = 0, correct = 0, top5 = 0;
  int64_t left_out = 0;  // damaged images, which are not counted (data.on_corrupt: skip)
  double loss = 0;       // mean over images, added in f64 in image order
  struct Class {
    int64_t images = 0, correct = 0;
  };
  std::vector<Class> classes;
  std::vector<int32_t> labels, predicted;  // of the first few images, for messages
  /// An image as the network's input, and its logits.
  struct Example {
    std::vector<uint8_t> pixels;  // planar
    int32_t label;
    std::vector<float> logits;
  };
  std::vector<Example> examples;  // the first images, if requested
  /// What the network says of an image. Probabilities that are not finite are 0.
  struct Opinion {
    static constexpr size_t kClasses = 3;
    int32_t place;  // among the evaluated images
    int32_t label, predicted;
    bool correct;
    float label_probability;
    std::array<int32_t, kClasses> classes;  // the most probable ones, in this order; -1: there are fewer
    std::array<float, kClasses> probabilities;
  };
  std::vector<Opinion> opinions;  // of all images that are not damaged, in order, if requested

  double accuracy() const { return images > 0 ? static_cast<double>(correct) / static_cast<double>(images) : 0; }
  /// The fields of an `eval` record, without event, step and epoch.
  Json to_json(bool with_top5) const;
};

struct EvaluationOptions {
  EvalViews views = EvalViews::plain;                             // each view is one pass
  int64_t examples = 0;                                           // the number of first images that are kept, on rank 0
  bool opinions = false;                                          // Evaluation::opinions, on every rank
  std::function<void(int64_t images, int64_t of)> progress = {};  // called now and then: images so far, on all ranks
};
/// Takes the answer for an image: its place in `images`, its label and its logits.
using Answered = std::function<void(int64_t place, int32_t label, std::span<const float> logits)>;
/// The views of an image that its evaluation looks at.
std::span<const View> views_of(EvalViews views);
/// The number of passes over the images.
int64_t passes(EvalViews views);

/// Rank b mod N evaluates batch b of `images`; the batches are the same for any N. Collective; every rank gets the
/// result, or nullopt if `give_up` (collective, called between batches; may be empty) returns true. Error(data) if
/// every image is damaged.
std::optional<Evaluation> evaluate(Evaluator& evaluator, const EvalPipeline& images, std::string split,
                                   Communicator& comm, const EvaluationOptions& options,
                                   const std::function<bool()>& give_up = {});
/// The same for one rank, whose `evaluators` of one batch size share the batches; several compute on threads of their
/// own. The results are those of one evaluator. Calls `answered` on this thread, in order, for each image that is not
/// damaged. Keeps no examples.
Evaluation evaluate(std::span<const std::unique_ptr<Evaluator>> evaluators, const EvalPipeline& images,
                    std::string split, const EvaluationOptions& options, const Answered& answered);

/// "3 damaged test images are left out (data.on_corrupt: skip)"
std::string left_out_line(const Evaluation& evaluation);

/// The lines of the table by class; of many classes only the worst and the best.
std::vector<std::string> class_lines(const Evaluation& evaluation, const std::vector<std::string>& names,
                                     LogFormat format = LogFormat::tutorial);

}  // namespace ct
