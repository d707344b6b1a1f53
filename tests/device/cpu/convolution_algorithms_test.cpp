// Every algorithm of a convolution against the scalar reference, Winograd's error, and how a algorithm is chosen.
#include "device/cpu/convolution_algorithms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "device/cpu/kernels/testing.h"
#include "selftest/reference/bf16.h"
#include "selftest/reference/conv.h"

namespace ct::cpu {
namespace {

using Doubles = std::vector<double>;
constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::grad_x, ConvPass::grad_w};

Doubles rounded_to(DType type, Doubles values) {
  if (type == DType::bf16)
    for (double& v : values) v = reference::rounded_to_bf16(v);
  return values;
}

/// Norm of the difference over the norm.
double distance(const Doubles& found, const Doubles& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

/// An operand's memory in either type.
class Operand {
 public:
  Operand(DType type, size_t n) : type_(type), f32_(type == DType::f32 ? n : 0), bf16_(type == DType::bf16 ? n : 0) {}
  Operand(DType type, const Doubles& values) : Operand(type, values.size()) {
    for (size_t i = 0; i < values.size(); ++i)
      if (type == DType::f32)
        f32_[i] = static_cast<float>(values[i]);
      else
        bf16_[i] = reference::to_bf16(values[i]);
  }
  std::byte* data() {
    return type_ == DType::f32 ? reinterpret_cast<std::byte*>(f32_.data()) : reinterpret_cast<std::byte*>(bf16_.data());
  }
  Doubles values() {
    Doubles v;
    for (size_t i = 0; i < f32_.size(); ++i) v.push_back(f32_[i]);
    for (size_t i = 0; i < bf16_.size(); ++i) v.push_back(reference::from_bf16(bf16_[i]));
    return v;
  }
  bool intact() const { return f32_.intact() && bf16_.intact(); }

 private:
  DType type_;
  Buffer<float> f32_;
  Buffer<uint16_t> bf16_;
};

/// A convolution with its operands, and what each pass must give.
struct Problem {
  reference::Conv s;
  bool planar;
  DType type;
  Doubles x, w, b, dy, x_stored;
  Doubles y, y_without_bias, dx, dw, db;

  Problem(const reference::Conv& conv, bool is_planar, DType t) : s(conv), planar(is_planar), type(t) {
    const auto terms = static_cast<size_t>(s.kernel * s.kernel * s.in);
    x_stored = rounded_to(type, normal(static_cast<size_t>(s.n * s.in * s.height * s.width), 1));
    x = planar ? reference::to_channels_last(x_stored, s.n, s.in, s.height * s.width) : x_stored;
    w = rounded_to(type, normal(terms * static_cast<size_t>(s.out), 2, 1 / std::sqrt(static_cast<double>(terms))));
    b = normal(static_cast<size_t>(s.out), 3);
    y = conv2d(s, x, w, b);
    y_without_bias = conv2d(s, x, w, Doubles());
    dy = rounded_to(type, normal(y.size(), 4));
    const auto g = conv2d_gradients(s, x, w, dy);
    dx = g.dx, dw = g.dw, db = g.db;
  }

  std::vector<Value> values(ConvPass pass) const {
    const Shape image = planar ? Shape{s.n, s.in, s.height, s.width} : Shape{s.n, s.height, s.width, s.in};
    const DType weights = pass == ConvPass::grad_w ? DType::f32 : type;
    return {{.shape = image, .dtype = type},
            {.shape = {s.out * s.kernel * s.kernel * s.in}, .dtype = weights},
            {.shape = {s.n, s.out_height(), s.out_width(), s.out}, .dtype = type},
            {.shape = {s.out}, .dtype = DType::f32}};
  }
  ConvTask task(ConvPass pass) const {
    const auto v = values(pass);
    const auto number = [](int64_t n) { return static_cast<int>(n); };
    return {.pass = pass,
            .dims = conv_dims(v[0].shape, v[2].shape, number(s.kernel), number(s.stride), number(s.pad), planar),
            .type = type,
            .image = 0,
            .weights = 1,
            .result = 2,
            .bias = pass == ConvPass::grad_x ? kNone : 3};
  }

  struct Found {
    Doubles main, bias;
  };
  /// What the pass computes, and that it writes nothing else.
  Found run(Kernel& kernel, ConvPass pass) const {
    Operand image(type, pass == ConvPass::grad_x ? Doubles(x.size(), NAN) : x_stored);
    Operand weights(pass == ConvPass::grad_w ? DType::f32 : type,
                    pass == ConvPass::grad_w ? Doubles(w.size(), NAN) : w);
    Operand result(type, pass == ConvPass::forward ? Doubles(y.size(), NAN) : dy);
    Operand bias(DType::f32, pass == ConvPass::grad_w ? Doubles(b.size(), NAN) : b);
    Operand* all[] = {&image, &weights, &result, &bias};
    Buffer<std::byte> workspace(kernel.workspace_bytes());
    const auto v = values(pass);
    kernel.bind(
        [&](ValueId id) {
          const auto i = static_cast<size_t>(id);
          return Tensor{all[i]->data(), v[i].dtype, v[i].shape};
        },
        workspace.data());
    kernel.launch();
    for (Operand* operand : all) EXPECT_TRUE(operand->intact());
    EXPECT_TRUE(workspace.intact());
    Operand& main = pass == ConvPass::forward ? result : pass == ConvPass::grad_x ? image : weights;
    return {main.values(), bias.values()};
  }
  const Doubles& expected(ConvPass pass) const {
    return pass == ConvPass::forward ? y : pass == ConvPass::grad_x ? dx : dw;
  }
};

class ConvolutionAlgorithmsTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    convolution_enter_thread();
  }
};
CT_KERNEL_SUITE(ConvolutionAlgorithmsTest);

TEST_P(ConvolutionAlgorithmsTest, EveryWayAgreesWithTheReference) {
  std::set<ConvAlgorithm> taken;
  std::vector<DType> types = {DType::f32};
  if (convolution_bf16_problem().empty()) types.push_back(DType::bf16);
  for (const DType type : types)
    for (const auto& [s, planar] : {std::pair(reference::Conv{3, 5, 9, 7, 6, 3, 1, 1}, false),
                                    {{2, 3, 15, 13, 8, 7, 2, 3}, true},
                                    {{5, 3, 8, 8, 16, 3, 1, 1}, true},
                                    {{4, 32, 9, 9, 24, 1, 2, 0}, false},
                                    {{40, 16, 5, 5, 32, 1, 1, 0}, false},
                                    {{3, 16, 9, 11, 33, 3, 2, 1}, false},
                                    {{1, 2, 2, 2, 3, 3, 1, 3}, false},
                                    {{2, 4, 6, 6, 9, 5, 3, 2}, false},
                                    {{13, 64, 12, 12, 16, 3, 1, 1}, false},  // three chunks of products
                                    {{16, 32, 8, 8, 32, 3, 1, 1}, false},
                                    {{5, 32, 18, 15, 64, 3, 1, 2}, false}}) {  // three chunks of Winograd's tiles
      const Problem p(s, planar, type);
      for (const ConvPass pass : kPasses) {
        if (planar && pass == ConvPass::grad_x) continue;
        for (const ConvAlgorithm algorithm : kConvAlgorithms)
          for (const bool bias : {true, false}) {
            SCOPED_TRACE(testing::Message()
                         << name_of(algorithm) << " pass " << static_cast<int>(pass) << ", " << s.in << "x" << s.height
                         << "x" << s.width << " -> " << s.out << ", " << name_of(type));
            ConvTask task = p.task(pass);
            if (!bias) task.bias = kNone;
            const auto kernel = prepare_convolution(task, algorithm);
            if (!kernel) continue;
            taken.insert(algorithm);
            const double allowed = type == DType::bf16 ? 4e-3 : algorithm == ConvAlgorithm::winograd ? 1e-5 : 1e-6;
            const auto found = p.run(*kernel, pass);
            EXPECT_LE(distance(found.main, pass == ConvPass::forward && !bias ? p.y_without_bias : p.expected(pass)),
                      allowed);
            if (pass == ConvPass::grad_w && bias) {
              EXPECT_LE(distance(found.bias, p.db), allowed);
            }
          }
      }
    }
  if (convolution_library().empty()) return;
  EXPECT_TRUE(taken.contains(ConvAlgorithm::direct) && taken.contains(ConvAlgorithm::winograd) &&
              taken.contains(ConvAlgorithm::product));
}

/// Winograd's transforms add numbers of both signs, which cancel: its error is larger, but of the same order. In bf16
/// it is lost in the rounding of the result, which of weights' gradients is f32.
TEST(ConvolutionAlgorithms, WinogradsErrorIsWithinFiveTimesTheDirectOne) {
  convolution_enter_thread();
  std::vector<DType> types = {DType::f32};
  if (convolution_bf16_problem().empty()) types.push_back(DType::bf16);
  for (const DType type : types) {
    const Problem p({8, 64, 12, 12, 64, 3, 1, 1}, /*planar=*/false, type);
    for (const ConvPass pass : kPasses) {
      ConvTask task = p.task(pass);
      if (pass == ConvPass::grad_w) task.bias = kNone;
      const auto error = [&](ConvAlgorithm algorithm) {
        const auto kernel = prepare_convolution(task, algorithm);
        return kernel ? distance(p.run(*kernel, pass).main, p.expected(pass)) : 0;
      };
      const double direct = error(ConvAlgorithm::direct), winograd = error(ConvAlgorithm::winograd);
      EXPECT_GT(direct, 0);
      EXPECT_GT(winograd, 0);
      EXPECT_LE(winograd, (type == DType::bf16 && pass != ConvPass::grad_w ? 1.02 : 5) * direct)
          << "pass " << static_cast<int>(pass) << " in " << name_of(type);
    }
  }
}

TEST(ConvolutionAlgorithms, TheTableKnowsEveryTask) {
  for (const ConvUnit unit : {ConvUnit::vector, ConvUnit::avx512, ConvUnit::bf16_avx512, ConvUnit::bf16_amx})
    for (const ConvPass pass : kPasses) {
      const bool slower = unit != ConvUnit::bf16_amx;
      const ConvTask task{pass, {32, 32, 32, 64, 32, 32, 64, 3, 1, 1, false}, DType::f32, 0, 1, 2, kNone};
      EXPECT_EQ(table_algorithm(task, unit, /*winograd=*/true) == ConvAlgorithm::winograd, slower);
      EXPECT_NE(table_algorithm(task, unit, /*winograd=*/false), ConvAlgorithm::winograd);
    }
  const ConvTask images{ConvPass::grad_w, {32, 32, 32, 3, 32, 32, 64, 3, 1, 1, true}, DType::bf16, 0, 1, 2, kNone};
  EXPECT_EQ(table_algorithm(images, ConvUnit::bf16_amx, true), ConvAlgorithm::product);
  const ConvTask shortcut{ConvPass::grad_x, {32, 8, 8, 256, 4, 4, 512, 1, 2, 0, false}, DType::f32, 0, 1, 2, kNone};
  EXPECT_EQ(table_algorithm(shortcut, ConvUnit::avx512, true), ConvAlgorithm::product);
}

TEST(ConvolutionAlgorithms, ThatWereTimedAreKeptAndTakenAgain) {
  convolution_enter_thread();
  const Problem p({2, 16, 8, 8, 16, 3, 1, 1}, /*planar=*/false, DType::f32);
  PlanBook times, book;
  ConvolutionAlgorithms timed({.winograd = false, .autotune = true}, "this machine", times);
  ConvolutionAlgorithms table({}, "this machine", book), elsewhere({}, "another machine", book);
  std::map<ConvPass, Doubles> found;
  for (const ConvPass pass : kPasses) found[pass] = p.run(*timed.prepare(p.task(pass), p.values(pass)), pass).main;
  const std::string plans = times.text();
  EXPECT_EQ(std::count(plans.begin(), plans.end(), '\n'), 3) << plans;
  EXPECT_NE(plans.find("this machine: convolution grad_w f32 2x8x8x16 8x8x16 kernel 3 stride 1 pad 1 bias\t"),
            std::string::npos)
      << plans;
  EXPECT_NE(plans.find("(direct "), std::string::npos) << plans;
  EXPECT_EQ(plans.find("winograd"), std::string::npos) << plans;
  table.prepare(p.task(ConvPass::forward), p.values(ConvPass::forward));
  EXPECT_EQ(book.text(), "");
  for (ConvolutionAlgorithms* algorithms : {&table, &elsewhere}) {
    book.use(plans);
    for (const ConvPass pass : kPasses) {
      const auto kernel = algorithms->prepare(p.task(pass), p.values(pass));
      if (algorithms == &table) {
        EXPECT_EQ(p.run(*kernel, pass).main, found[pass]);
      }
    }
    EXPECT_EQ(book.text(), plans);  // for the machine that they are of, also where they mean nothing
    EXPECT_EQ(book.missed(), "");
  }
}

TEST(ConvolutionAlgorithms, OneThatIsNotThereIsNamed) {
  convolution_enter_thread();
  const Problem p({2, 16, 8, 8, 16, 3, 1, 1}, /*planar=*/false, DType::f32);
  PlanBook times, book;
  ConvolutionAlgorithms timed({.autotune = true}, "here", times);
  timed.prepare(p.task(ConvPass::forward), p.values(ConvPass::forward));
  std::string plans = times.text();
  plans.replace(plans.find('\t') + 1, std::string::npos, "by hand (1 ms)\nno plan\n\t\n");
  book.use(plans);
  ConvolutionAlgorithms algorithms({}, "here", book);
  EXPECT_NE(algorithms.prepare(p.task(ConvPass::forward), p.values(ConvPass::forward)), nullptr);
  EXPECT_TRUE(book.missed().starts_with("the stored plan 'by' is none of here: convolution forward")) << book.missed();
}

}  // namespace
}  // namespace ct::cpu
