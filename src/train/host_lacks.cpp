#include "train/host_lacks.h"

#include <functional>

#include "data/locate.h"
#include "device/cuda/library.h"
#include "train/device.h"

namespace ct {

std::vector<Error> host_lacks(const Config& given, int64_t ranks) {
  Config config = given;
  settle_bf16(config);
  const bool on_gpus = wants_cuda(config) && gpu_count(config) > 0;
  const std::function<void()> needs[] = {
      [&] {
        if (!on_gpus) make_backend(config);  // a CPU's, or the error
        require_fitting_device(config, on_gpus);
        cuda::require_libraries_in(config.cuda.path);
        if (on_gpus) require_gpu_each(config, ranks, gpu_count(config));
      },
      [&] {
        const auto& data = config.data;
        if (data.train.empty() && data.val.empty()) require_named_folder(data.path, data.dataset);
        locate_data(data.dataset, data.path,
                    {.train = data.train, .val = data.val, .if_absent = IfAbsent::write_later});
      },
  };
  std::vector<Error> lacks;
  for (const auto& need : needs) {
    try {
      need();
    } catch (const Error& error) {
      lacks.push_back(error);
    }
  }
  return lacks;
}

std::vector<std::string> host_warnings(const Config& config, int64_t ranks) {
  std::vector<std::string> warnings;
  for (const Error& lack : host_lacks(config, ranks))
    warnings.push_back(str("on this host a run would be refused: ", lack.what()));
  return warnings;
}

}  // namespace ct
