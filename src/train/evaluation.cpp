#include "train/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/in_order.h"
#include "base/text.h"
#include "comm/all_ranks.h"
#include "metrics/calibration.h"
#include "metrics/console.h"
#include "train/setup.h"

namespace ct {
namespace {
struct Answer {
  int32_t label, predicted, label_rank;
  float loss;
  bool hit() const { return predicted == label && label_rank == 0; }  // the first maximum, and no NaN beats it
};
constexpr int64_t kShown = 4;

/// The most probable classes; of equally probable ones the first.
Evaluation::Opinion opinion_of(int64_t place, const Answer& answer, std::span<const float> logits) {
  Evaluation::Opinion opinion{.place = static_cast<int32_t>(place),
                              .label = answer.label,
                              .predicted = answer.predicted,
                              .correct = answer.hit(),
                              .label_probability = 0,
                              .classes = {},
                              .probabilities = {}};
  opinion.classes.fill(-1);
  if (answer.label < 0 || !std::ranges::all_of(logits, [](float z) { return std::isfinite(z); })) return opinion;
  const std::vector<double> p = probabilities(logits);
  opinion.label_probability = static_cast<float>(p[static_cast<size_t>(answer.label)]);
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t shown = std::min(order.size(), Evaluation::Opinion::kClasses);
  std::ranges::partial_sort(order, order.begin() + static_cast<ptrdiff_t>(shown), [&](int32_t a, int32_t b) {
    const double pa = p[static_cast<size_t>(a)], pb = p[static_cast<size_t>(b)];
    return pa > pb || (pa == pb && a < b);
  });
  for (size_t k = 0; k < shown; ++k) {
    opinion.classes[k] = order[k];
    opinion.probabilities[k] = static_cast<float>(p[static_cast<size_t>(order[k])]);
  }
  return opinion;
}

void add_examples(Evaluation& result, int64_t most, const uint8_t* images, size_t bytes,
                  const std::vector<int32_t>& labels) {
  for (size_t i = 0; i < std::min(labels.size(), static_cast<size_t>(most)); ++i)
    result.examples.push_back({{images + i * bytes, images + (i + 1) * bytes}, labels[i], {}});
}

/// `logits` of a batch's images, of which the examples are the first.
void add_logits(Evaluation& result, const std::vector<float>& logits, size_t classes) {
  for (size_t i = 0; i < result.examples.size(); ++i)
    result.examples[i].logits.assign(&logits[i * classes], &logits[i * classes] + classes);
}

/// From logits, as SoftmaxCrossEntropy says it.
Answer answer_of(std::span<const float> logits, int32_t label) {
  const auto largest = std::ranges::max_element(logits);
  const float own = logits[static_cast<size_t>(std::max(label, 0))];
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - *largest);
  return {label, static_cast<int32_t>(largest - logits.begin()),
          static_cast<int32_t>(std::ranges::count_if(logits, [&](float z) { return !(z <= own); })),
          static_cast<float>(std::log(sum) + *largest - own)};
}

/// Runs the batch, whose images the evaluator holds, once for each view; the weighted sum of the logits.
std::vector<float> weighted_logits(Evaluator& evaluator, std::span<const View> views) {
  const Inputs first = evaluator.inputs();
  const std::vector<uint8_t> images(first.images.begin(), first.images.end());  // the program takes their place
  std::vector<float> sum;
  for (const View& view : views) {
    const Inputs to = evaluator.inputs();
    std::ranges::copy(images, to.images.begin());
    std::ranges::fill(to.labels, 0);  // nobody asks for losses
    std::ranges::fill(to.draws, view.draw);
    evaluator.run();
    const std::vector<float> logits = evaluator.logits();
    sum.resize(logits.size());
    std::ranges::transform(sum, logits, sum.begin(), [&](float s, float z) { return s + view.weight * z; });
  }
  return sum;
}

/// What is answered for the images of a batch, by image; [image][class] logits, if they are wanted.
struct BatchAnswers {
  std::vector<Answer> answers;
  std::vector<float> logits = {};
};

/// Runs the batch, whose images the evaluator holds and have these labels.
BatchAnswers run_batch(Evaluator& evaluator, const std::vector<int32_t>& labels, EvalViews views, bool wants_logits) {
  BatchAnswers batch{std::vector<Answer>(labels.size())};
  if (views != EvalViews::plain) {
    batch.logits = weighted_logits(evaluator, views_of(views));
    const size_t classes = batch.logits.size() / static_cast<size_t>(evaluator.batch());
    for (size_t i = 0; i < labels.size(); ++i)
      batch.answers[i] = answer_of(std::span(batch.logits).subspan(i * classes, classes), labels[i]);
  } else {
    evaluator.run();
    for (size_t i = 0; i < labels.size(); ++i)
      batch.answers[i] = {labels[i], evaluator.predicted()[i], evaluator.label_rank()[i], evaluator.losses()[i]};
    if (wants_logits) batch.logits = evaluator.logits();
  }
  return batch;
}

/// `answer(i)` is that for the i-th image. Error(data) if every image is damaged.
template <class AnswerFor>
void sum_up(Evaluation& result, const EvalPipeline& images, const AnswerFor& answer) {
  // What was left out when the set was opened has no number: it belongs to an evaluation of all the rest.
  if (images.images() == images.set().count()) result.left_out = images.set().skipped();
  result.classes.resize(static_cast<size_t>(images.set().classes()));
  double sum = 0;
  for (int64_t i = 0; i < images.images(); ++i) {
    const Answer& o = answer(static_cast<size_t>(i));
    if (o.label == EvalPipeline::kNoLabel) {
      ++result.left_out;
      continue;
    }
    Evaluation::Class& c = result.classes[static_cast<size_t>(o.label)];
    sum += o.loss;
    ++result.images;
    ++c.images;
    c.correct += o.hit();
    result.correct += o.hit();
    result.top5 += o.label_rank < 5;
    if (result.images <= kShown) {
      result.labels.push_back(o.label);
      result.predicted.push_back(o.predicted);
    }
  }
  if (result.left_out > 0 && result.images == 0)
    fail(ExitCode::data, images.set().name(), ": all ", result.left_out, " ", result.split,
         " images are damaged; check the set with: cifar-train data verify");
  result.loss = result.images > 0 ? sum / static_cast<double>(result.images) : 0;
  if (std::isnan(result.loss)) result.loss = std::abs(result.loss);  // "-nan" would say no more
}

/// Evaluators that threads borrow, and batches that they fill in order, as a loader reads them.
class SharedEvaluators {
 public:
  SharedEvaluators(std::span<const std::unique_ptr<Evaluator>> evaluators, const EvalPipeline& images)
      : images_(images), ahead_(images.read_ahead(/*stride=*/1, {})) {
    for (const auto& evaluator : evaluators) idle_.push_back(evaluator.get());
  }

  /// An evaluator that nobody else uses, until the result is destroyed.
  auto borrow() {
    const auto give_back = [this](Evaluator* evaluator) {
      std::lock_guard lock(mutex_);
      idle_.push_back(evaluator);
    };
    std::lock_guard lock(mutex_);
    std::unique_ptr<Evaluator, decltype(give_back)> evaluator(idle_.back(), give_back);
    idle_.pop_back();
    return evaluator;
  }

  /// Fills batch b after those before it; every b from 0 on must be filled once. The labels.
  std::vector<int32_t> fill(int64_t b, Evaluator& evaluator) {
    std::unique_lock lock(filling_);
    turn_.wait(lock, [&] { return next_ == b; });
    struct Next {
      ~Next() {
        ++of.next_;
        of.turn_.notify_all();
      }
      SharedEvaluators& of;
    } const next{*this};
    return images_.fill(b, evaluator.inputs(), ahead_.get());
  }

 private:
  const EvalPipeline& images_;
  std::unique_ptr<Loader> ahead_;
  std::mutex mutex_, filling_;
  std::condition_variable turn_;
  std::vector<Evaluator*> idle_;
  int64_t next_ = 0;
};
}  // namespace

std::span<const View> views_of(EvalViews views) {
  static constexpr Draw kMirrored{.flip = 1}, kUp{.dy = 1, .dx = 1}, kDown{.dy = -1, .dx = -1};
  static constexpr Draw kUpMirrored{.dy = 1, .dx = 1, .flip = 1}, kDownMirrored{.dy = -1, .dx = -1, .flip = 1};
  static constexpr std::array kPlainViews{View{{}, 1}};
  static constexpr std::array kMirroredViews{View{{}, 0.5F}, View{kMirrored, 0.5F}};
  static constexpr std::array kShiftedViews{View{{}, 0.25F},           View{kMirrored, 0.25F},
                                            View{kUp, 0.125F},         View{kDown, 0.125F},
                                            View{kUpMirrored, 0.125F}, View{kDownMirrored, 0.125F}};
  switch (views) {
    case EvalViews::plain:
      return kPlainViews;
    case EvalViews::mirrored:
      return kMirroredViews;
    case EvalViews::shifted:
      return kShiftedViews;
  }
  return {};
}

int64_t passes(EvalViews views) { return std::ssize(views_of(views)); }

Json Evaluation::to_json(bool with_top5) const {
  Json record = {{"split", split}, {"loss", loss}, {"accuracy", accuracy()}};
  if (with_top5) record["top5"] = images > 0 ? static_cast<double>(top5) / static_cast<double>(images) : 0;
  Json per_class = Json::array();
  for (const Class& c : classes)
    per_class.push_back(c.images > 0 ? Json(static_cast<double>(c.correct) / static_cast<double>(c.images)) : Json());
  record["per_class"] = std::move(per_class);
  record["images"] = images;
  if (left_out > 0) record["left_out"] = left_out;
  return record;
}

std::optional<Evaluation> evaluate(Evaluator& evaluator, const EvalPipeline& images, std::string split,
                                   Communicator& comm, const EvaluationOptions& options,
                                   const std::function<bool()>& give_up) {
  const auto batch = static_cast<size_t>(evaluator.batch());
  const int64_t ranks = comm.size(), rounds = (images.batches() + ranks - 1) / ranks;
  const size_t share = static_cast<size_t>(rounds) * batch;  // slots for one rank's images

  const auto ahead = images.read_ahead(ranks, [&] { comm.heartbeat().advance(Phase::evaluation); });
  std::vector<Answer> mine(share), all(share * static_cast<size_t>(ranks));
  std::vector<Evaluation::Opinion> my_opinions(options.opinions ? share : 0);
  const auto classes = static_cast<size_t>(images.set().classes());
  Evaluation result{.split = std::move(split)};
  std::optional<Error> damaged;  // found by this rank; all ranks get it when all are done
  for (int64_t round = 0; round < rounds; ++round) {
    if (give_up && give_up()) return std::nullopt;
    comm.heartbeat().advance(Phase::evaluation);
    if (options.progress)
      options.progress(std::min(round * ranks * evaluator.batch(), images.images()), images.images());
    const int64_t b = round * ranks + comm.rank();
    const Inputs in = evaluator.inputs();
    std::vector<int32_t> labels;
    if (b < images.batches() && !damaged) {
      try {
        labels = images.fill(b, in, ahead.get());
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
        damaged = error;
      }
    }
    if (labels.empty()) {
      if (!evaluator.collective()) continue;
      std::ranges::fill(in.labels, 0);  // peers gather weights from this rank
    }
    const bool shows = b == 0 && options.examples > 0;
    if (shows) add_examples(result, options.examples, in.images.data(), images.set().shape().bytes(), labels);
    const BatchAnswers batch_answers = run_batch(evaluator, labels, options.views, shows || options.opinions);
    std::ranges::copy(batch_answers.answers, &mine[static_cast<size_t>(round) * batch]);
    if (shows) add_logits(result, batch_answers.logits, classes);
    for (size_t i = 0; options.opinions && i < labels.size(); ++i)
      my_opinions[static_cast<size_t>(round) * batch + i] =
          opinion_of(b * evaluator.batch() + static_cast<int64_t>(i), batch_answers.answers[i],
                     std::span(batch_answers.logits).subspan(i * classes, classes));
  }
  run_on_all_ranks(comm, [&] {
    if (damaged) throw *damaged;
  });
  comm.gather_all(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  const auto slot_of = [&](size_t i) {
    const size_t b = i / batch, rank = b % static_cast<size_t>(ranks);
    return rank * share + b / static_cast<size_t>(ranks) * batch + i % batch;
  };
  sum_up(result, images, [&](size_t i) -> const Answer& { return all[slot_of(i)]; });
  if (!options.opinions) return result;
  std::vector<Evaluation::Opinion> opinions(all.size());
  comm.gather_all(std::as_bytes(std::span(my_opinions)), std::as_writable_bytes(std::span(opinions)));
  for (size_t i = 0; i < static_cast<size_t>(images.images()); ++i)
    if (all[slot_of(i)].label != EvalPipeline::kNoLabel) result.opinions.push_back(opinions[slot_of(i)]);
  return result;
}

Evaluation evaluate(std::span<const std::unique_ptr<Evaluator>> evaluators, const EvalPipeline& images,
                    std::string split, const EvaluationOptions& options, const Answered& answered) {
  const int64_t batch = evaluators.front()->batch();
  const auto classes = static_cast<size_t>(images.set().classes());
  SharedEvaluators shared(evaluators, images);
  std::vector<Answer> all;
  const auto run = [&](int64_t b) {
    const auto evaluator = shared.borrow();
    evaluator->enter_thread();
    return run_batch(*evaluator, shared.fill(b, *evaluator), options.views, /*wants_logits=*/true);
  };
  const auto take = [&](int64_t b, const BatchAnswers& of_batch) {
    for (size_t i = 0; i < of_batch.answers.size(); ++i)
      if (const int32_t label = of_batch.answers[i].label; label != EvalPipeline::kNoLabel)
        answered(b * batch + static_cast<int64_t>(i), label, std::span(of_batch.logits).subspan(i * classes, classes));
    all.insert(all.end(), of_batch.answers.begin(), of_batch.answers.end());
    if (options.progress) options.progress(std::ssize(all), images.images());
  };
  if (options.progress) options.progress(0, images.images());
  if (evaluators.size() == 1)
    for (int64_t b = 0; b < images.batches(); ++b) take(b, run(b));  // a GPU's, on the thread that prepared it
  else
    in_order(images.batches(), static_cast<int>(evaluators.size()), run, take);
  Evaluation result{.split = std::move(split)};
  sum_up(result, images, [&](size_t i) -> const Answer& { return all[i]; });
  return result;
}

std::string left_out_line(const Evaluation& evaluation) {
  return str(counted(evaluation.left_out, "damaged " + evaluation.split + " image"),
             evaluation.left_out == 1 ? " is" : " are", " left out (data.on_corrupt: skip)");
}

std::vector<std::string> class_lines(const Evaluation& evaluation, const std::vector<std::string>& names,
                                     LogFormat format) {
  constexpr size_t kAll = 20, kEnds = 10;
  const auto line = [&](size_t c) {
    return class_accuracy_line(names[c], evaluation.classes[c].correct, evaluation.classes[c].images, format);
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
