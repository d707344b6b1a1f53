#include "train/evaluation.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "metrics/console.h"
#include "train/setup.h"

namespace ct {
namespace {
struct Answer {
  int32_t label, predicted, larger;
  float loss;
};
constexpr int64_t kShown = 4;

void add_examples(Evaluation& result, int64_t most, const uint8_t* images, size_t bytes,
                  const std::vector<int32_t>& labels) {
  for (size_t i = 0; i < std::min(labels.size(), static_cast<size_t>(most)); ++i)
    result.examples.push_back({{images + i * bytes, images + (i + 1) * bytes}, labels[i], {}});
}

/// `logits` of `rows` images, of which the examples are the first.
void add_logits(Evaluation& result, const std::vector<float>& logits, size_t rows) {
  const size_t classes = logits.size() / rows;
  for (size_t i = 0; i < result.examples.size(); ++i)
    result.examples[i].logits.assign(&logits[i * classes], &logits[i * classes] + classes);
}
}  // namespace

Json Evaluation::to_json(bool with_top5) const {
  Json record = {{"split", split}, {"loss", loss}, {"accuracy", accuracy()}};
  if (with_top5) record["top5"] = images > 0 ? static_cast<double>(top5) / static_cast<double>(images) : 0;
  Json per_class = Json::array();
  for (const Class& c : classes)
    per_class.push_back(c.images > 0 ? static_cast<double>(c.correct) / static_cast<double>(c.images) : 0);
  record["per_class"] = std::move(per_class);
  record["images"] = images;
  if (left_out > 0) record["left_out"] = left_out;
  return record;
}

std::optional<Evaluation> evaluate(Evaluator& evaluator, const EvalPipeline& images, std::string split,
                                   Communicator& comm, const std::function<bool()>& give_up, int64_t examples) {
  const auto batch = static_cast<size_t>(evaluator.batch());
  const int64_t ranks = comm.size(), rounds = (images.batches() + ranks - 1) / ranks;
  const size_t share = static_cast<size_t>(rounds) * batch;  // slots for one rank's images

  const auto ahead = images.read_ahead(ranks, [&] { comm.heartbeat().advance(Phase::evaluation); });
  std::vector<Answer> mine(share), all(share * static_cast<size_t>(ranks));
  Evaluation result{.split = std::move(split)};
  for (int64_t round = 0; round < rounds; ++round) {
    if (give_up && give_up()) return std::nullopt;
    comm.heartbeat().advance(Phase::evaluation);
    const int64_t b = round * ranks + comm.rank();
    const Inputs in = evaluator.inputs();
    std::vector<int32_t> labels;
    if (b < images.batches()) {
      labels = images.fill(b, buffers(in, evaluator.bound().lowered()), ahead.get());
    } else if (evaluator.collective()) {  // peers gather weights from this rank
      std::fill_n(in.labels, batch, 0);
    } else {
      continue;
    }
    if (b == 0 && examples > 0) add_examples(result, examples, in.images, images.set().shape().bytes(), labels);
    evaluator.run();
    if (!result.examples.empty() && b == 0) add_logits(result, evaluator.logits(), batch);
    Answer* out = &mine[static_cast<size_t>(round) * batch];
    for (size_t i = 0; i < labels.size(); ++i)
      out[i] = {labels[i], evaluator.predicted()[i], evaluator.larger()[i], evaluator.losses()[i]};
  }
  comm.gather_all(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));

  // What was left out when the set was opened has no number: it belongs to an evaluation of all the rest.
  if (images.images() == images.set().count()) result.left_out = images.set().skipped();
  result.classes.resize(static_cast<size_t>(images.set().classes()));
  double sum = 0;
  for (int64_t i = 0; i < images.images(); ++i) {
    const size_t b = static_cast<size_t>(i) / batch, rank = b % static_cast<size_t>(ranks);
    const Answer& o = all[rank * share + b / static_cast<size_t>(ranks) * batch + static_cast<size_t>(i) % batch];
    if (o.label == EvalPipeline::kNoLabel) {
      ++result.left_out;
      continue;
    }
    Evaluation::Class& c = result.classes[static_cast<size_t>(o.label)];
    const bool hit = o.predicted == o.label;
    sum += o.loss;
    ++result.images;
    ++c.images;
    c.correct += hit;
    result.correct += hit;
    result.top5 += o.larger < 5;
    if (result.images <= kShown) {
      result.labels.push_back(o.label);
      result.predicted.push_back(o.predicted);
    }
  }
  if (result.left_out > 0 && result.images == 0)
    fail(ExitCode::data, images.set().name(), ": all ", result.left_out, " ", result.split,
         " images are damaged; check the set with: cifar-train data verify");
  result.loss = result.images > 0 ? sum / static_cast<double>(result.images) : 0;
  return result;
}

std::string left_out_line(const Evaluation& evaluation) {
  return str(counted(evaluation.left_out, "damaged " + evaluation.split + " image"),
             evaluation.left_out == 1 ? " is" : " are", " left out (data.on_corrupt: skip)");
}

std::vector<std::string> class_lines(const Evaluation& evaluation, const std::vector<std::string>& names) {
  constexpr size_t kAll = 20, kEnds = 10;
  const auto line = [&](size_t c) {
    return class_accuracy_line(names[c], evaluation.classes[c].correct, evaluation.classes[c].images);
  };
  std::vector<size_t> order;
  for (size_t c = 0; c < evaluation.classes.size(); ++c) order.push_back(c);
  std::vector<std::string> lines;
  if (order.size() <= kAll) {
    for (const size_t c : order) lines.push_back(line(c));
    return lines;
  }
  std::erase_if(order, [&](size_t c) { return evaluation.classes[c].images == 0; });
  std::ranges::stable_sort(order, {}, [&](size_t c) {
    return static_cast<double>(evaluation.classes[c].correct) / static_cast<double>(evaluation.classes[c].images);
  });
  const size_t shown = std::min(kEnds, order.size() / 2);
  lines.push_back(str("The ", shown, " worst and the ", shown, " best of ", order.size(), " classes:"));
  for (size_t i = 0; i < order.size(); ++i)
    if (i < shown || i >= order.size() - shown) lines.push_back(line(order[i]));
  return lines;
}

}  // namespace ct
