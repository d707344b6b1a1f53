#include "data/hold_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/text.h"

namespace ct {
namespace {

/// The images of each class in an order that the seed draws. Parts take them from the front.
class Classes {
 public:
  Classes(const DataSet& set, int64_t count, uint64_t seed) : set_(set), images_(static_cast<size_t>(set.classes())) {
    for (int64_t i = 0; i < count; ++i) images_[static_cast<size_t>(set.label(i))].push_back(static_cast<uint32_t>(i));
    for (size_t c = 0; c < images_.size(); ++c) {
      Random random(seed, Purpose::validation, c);
      for (auto i = static_cast<uint32_t>(images_[c].size()); i > 1; --i)
        std::swap(images_[c][i - 1], images_[c][random.below(i)]);
    }
    taken_.resize(images_.size());
  }

  /// Holds out a share for `key`. `later`: so many parts follow, for which a class keeps an image if it has enough.
  std::vector<uint32_t> take(std::string_view key, const Portion& portion, int64_t later) {
    std::vector<uint32_t> part = portion.unit == Portion::Unit::fold ? fold(key, portion) : share(key, portion, later);
    std::ranges::sort(part);
    return part;
  }

  std::vector<uint32_t> rest() const {
    std::vector<uint32_t> part;
    for (size_t c = 0; c < images_.size(); ++c)
      part.insert(part.end(), images_[c].begin() + taken_[c], images_[c].end());
    std::ranges::sort(part);
    return part;
  }

 private:
  int64_t left(size_t c) const { return std::ssize(images_[c]) - taken_[c]; }

  /// Images go to the folds in turn, from class to class, so that folds differ by one image at most.
  std::vector<uint32_t> fold(std::string_view key, const Portion& portion) {
    int64_t all = 0, turn = 0;
    for (size_t c = 0; c < images_.size(); ++c) all += left(c);
    if (portion.folds > all)
      fail(ExitCode::usage, key, ": ", to_text(portion), " is one of more folds than the ", counted(all, "image"),
           ", of which each fold needs one: make at most ", all, " folds");
    std::vector<uint32_t> part;
    for (size_t c = 0; c < images_.size(); ++c) {
      const auto begin = images_[c].begin() + taken_[c];
      const auto own = std::stable_partition(begin, images_[c].end(),
                                             [&](uint32_t) { return turn++ % portion.folds == portion.fold - 1; });
      if (own == images_[c].end() && begin != own) refuse(key, to_text(portion), c, "give the class more images");
      part.insert(part.end(), begin, own);
      taken_[c] += own - begin;
    }
    return part;
  }

  std::vector<uint32_t> share(std::string_view key, const Portion& portion, int64_t later) {
    const size_t n = images_.size();
    std::vector<int64_t> most(n), least(n), chosen(n);
    std::vector<double> quota(n);
    int64_t all = 0, available = 0, classes = 0, can = 0;
    for (size_t c = 0; c < n; ++c) {
      all += std::ssize(images_[c]);
      available += left(c);
      most[c] = std::max<int64_t>(left(c) - 1 - (left(c) > 2 ? later : 0), 0);
      can += most[c];
      classes += most[c] > 0;
    }
    int64_t wanted = static_cast<int64_t>(portion.amount);
    if (portion.unit == Portion::Unit::percent)
      wanted = std::max<int64_t>(std::llround(portion.amount / 100 * static_cast<double>(all)), classes);
    if (wanted > can) {
      const auto smallest = std::ranges::min_element(
          images_, {}, [](const auto& images) { return images.empty() ? SIZE_MAX : images.size(); });
      refuse(key, str(wanted, " of ", all, " images"), static_cast<size_t>(smallest - images_.begin()),
             str(key.find("data.test ") != key.npos ? "lower data.test, or " : "",
                 can > 0 ? str("hold out at most ", can) : "give each class more images"));
    }
    for (size_t c = 0; c < n; ++c) {
      quota[c] = static_cast<double>(wanted) * static_cast<double>(left(c)) / static_cast<double>(available);
      least[c] = wanted >= classes ? std::min<int64_t>(most[c], 1) : 0;
      chosen[c] = std::clamp(static_cast<int64_t>(quota[c]), least[c], most[c]);
    }
    settle(chosen, quota, least, most, wanted);
    std::vector<uint32_t> part;
    for (size_t c = 0; c < n; ++c) {
      const auto begin = images_[c].begin() + taken_[c];
      part.insert(part.end(), begin, begin + chosen[c]);
      taken_[c] += chosen[c];
    }
    return part;
  }

  /// Changes numbers by one, those first that are the furthest from their quota, until they add up to `wanted`.
  static void settle(std::vector<int64_t>& chosen, const std::vector<double>& quota, const std::vector<int64_t>& least,
                     const std::vector<int64_t>& most, int64_t wanted) {
    int64_t sum = std::accumulate(chosen.begin(), chosen.end(), int64_t{0});
    while (sum != wanted) {
      const int64_t step = sum < wanted ? 1 : -1;
      size_t best = chosen.size();
      double gain = 0;
      for (size_t c = 0; c < chosen.size(); ++c) {
        if (step > 0 ? chosen[c] >= most[c] : chosen[c] <= least[c]) continue;
        const double now = static_cast<double>(step) * (quota[c] - static_cast<double>(chosen[c]));
        if (best == chosen.size() || now > gain) best = c, gain = now;
      }
      chosen[best] += step;
      sum += step;
    }
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& what, size_t c, const std::string& remedy) const {
    fail(ExitCode::usage, key, ": holding out ", what, " leaves no image of the class ",
         in_quotes(set_.class_names()[c]), " to train on; ", remedy);
  }

  const DataSet& set_;
  std::vector<std::vector<uint32_t>> images_;
  std::vector<int64_t> taken_;
};

}  // namespace

ImagePart whole(const DataSet* set) {
  ImagePart part{.set = set};
  if (set == nullptr) return part;
  part.images.resize(static_cast<size_t>(set->count()));
  std::iota(part.images.begin(), part.images.end(), 0u);
  return part;
}

Parts divide(const DataSet& set, const HoldOut& how) {
  if (how.limit > set.count())
    fail(ExitCode::usage, "data.limit: ", how.limit, " is more than the ", counted(set.count(), "training image"),
         "; lower it, or set it to 0 to use all");
  const int64_t count = how.limit > 0 ? how.limit : set.count();
  Parts parts;
  if (!how.validation.is_share() && !how.test.is_share()) {
    parts.training.resize(static_cast<size_t>(count));
    std::iota(parts.training.begin(), parts.training.end(), 0u);
    return parts;
  }
  Classes classes(set, count, how.seed);
  const bool both = how.validation.is_share() && how.test.is_share();
  if (how.test.is_share()) parts.test = classes.take("data.test", how.test, both ? 1 : 0);
  const std::string beside =
      both ? str(" ", to_text(how.validation), " beside data.test ", to_text(how.test)) : std::string();
  if (how.validation.is_share()) parts.validation = classes.take("data.validation" + beside, how.validation, 0);
  parts.training = classes.rest();
  return parts;
}

uint32_t fingerprint(const DataSet& set, const Parts& parts) {
  uint32_t crc = set.fingerprint();
  for (const std::vector<uint32_t>& part : {parts.validation, parts.test})
    if (!part.empty()) crc = crc32c(std::as_bytes(std::span(part)), crc);
  return crc;
}

}  // namespace ct
