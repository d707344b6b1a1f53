#include <algorithm>
#include <cstdio>

#include "base/seconds.h"
#include "cli/bench/bench.h"
#include "train/agree.h"

namespace ct {

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

Spread time_windows(Communicator& comm, const BenchFlags& f, const std::function<void(int64_t)>& work) {
  work(2);  // warm up
  const double once = std::max(seconds_of([&] { work(4); }) / 4, 1e-9);
  const int64_t count = broadcast_value(comm, std::max<int64_t>(1, static_cast<int64_t>(f.window / once)));
  std::vector<double> times;
  for (int w = 0; w < f.windows; ++w) {
    comm.barrier();
    times.push_back(seconds_of([&] {
                      work(count);
                      comm.barrier();
                    }) /
                    static_cast<double>(count));
  }
  return spread(times);
}

void print(const BenchFlags& f, const Json& result, const std::string& text) {
  std::printf("%s\n", f.json ? result.dump().c_str() : text.c_str());
}

}  // namespace ct
