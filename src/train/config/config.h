// The effective configuration as plain values. The member initialisers are the value of every absent key
// (an absent optimizer is an error, absent batch keys follow DeepSpeed's rule, an absent scheduler is constant, absent
// parameters are DeepSpeed's or PyTorch's). schema.h binds each member to its key.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/watchdog/supervision.h"
#include "data/pictures/transform.h"
#include "data/portion.h"
#include "data/sampler.h"
#include "metrics/log_format.h"
#include "model/models.h"
#include "optim/parameter_groups.h"
#include "optim/schedule.h"
#include "plan/lower.h"
#include "train/config/batch.h"
#include "train/config/choices.h"
#include "train/config/class_weights.h"

namespace ct {

struct Config {
  int64_t seed = 42;
  std::string device = "auto";
  std::string output = "runs/cnn";

  Model model;

  struct Data {
    std::string dataset = "auto";
    std::string path = "data";
    std::string train, val;    // the folders of the two splits; empty: in path
    Portion validation, test;  // held out of the training set, or the folders of these images
    bool shuffle = true;
    Sampler sampler = Sampler::uniform;
    std::vector<double> mean = {0.5, 0.5, 0.5}, std = {0.5, 0.5, 0.5};  // of pixels scaled to 0..1
    std::vector<AugmentStep> augment;
    int64_t size = 224;    // of a sample made from a picture: width and height
    int64_t resize = 256;  // shorter side of a picture before the centre crop
    bool exact = false;    // random crops are decoded in full resolution
    int64_t max_pixels = kMaxPixels;
    OnCorrupt on_corrupt = OnCorrupt::error;
    Labels labels = Labels::fine;
    int64_t limit = 0;    // images of the training set; 0: all
    int64_t workers = 0;  // threads of a rank that read ahead; 0: by cores
  } data;

  struct Train {
    int64_t epochs = 2;
    int64_t max_steps = -1;       // optimizer steps; -1: no limit
    int64_t log_interval = 2000;  // micro-batches of all ranks together; ema_loss: optimizer steps
    LogFormat log_format = LogFormat::tutorial;
    bool sample_grid = false;                      // a picture of the first batch's images in the run's folder
    int64_t save_interval = 0, eval_interval = 0;  // optimizer steps; 0: every epoch
    int64_t eval_batch_size = 250;
    EvalViews eval_views = EvalViews::plain;
    struct Best {
      BestSplit split = BestSplit::last;
      Metric metric = Metric::accuracy;
    } best;
    struct EarlyStopping {
      int64_t patience = 0;  // evaluations without improvement; 0: never stop early
      Metric metric = Metric::loss;
    } early_stopping;
    struct Ema {             // exponential moving average of the weights; the other members matter only with a decay
      double decay = 0;      // 0: none
      int64_t start = 0;     // applied steps up to which it equals the weights
      bool evaluate = true;  // evaluations use the average
    } ema;
    Recompute recompute = Recompute::none;
    double label_smoothing = 0;
    ClassWeights class_weights;
    std::vector<std::string> freeze;  // patterns of the names of parameters that do not learn
    int64_t unfreeze_at = 0;          // the number of epochs after which all learn; 0: never
    double layer_decay = 1;           // the rate of a layer, as a share of the next layer's
    int64_t max_bad_steps = 3;        // the n-th non-finite step in a row ends the run
  } train;

  struct Checkpoint {
    int64_t keep_last = 3;
    SaveFailure on_failure = SaveFailure::warn;
    bool asynchronous = true;  // save in parallel with training; false: training waits
  } checkpoint;

  struct Communication {
    CommBackend backend = CommBackend::automatic;
    bool reproducible = true;
    Supervision supervision;     // heartbeat_s, timeout_s
    int64_t check_interval = 0;  // optimizer steps between comparing the replicas' weight hashes; 0: never
    bool share_device = false;
  } communication;

  struct Cpu {
    int64_t threads = 1;
    bool winograd = true;   // 3x3 convolutions by Winograd's algorithm
    bool autotune = false;  // time the algorithms of convolutions
  } cpu;

  struct Cuda {
    bool autotune = false;  // time the libraries' plans
    bool tf32 = false;      // f32 products in TF32
    bool record = true;     // steps as CUDA graphs
    std::string path;       // --cuda-path: the folder that is searched first for libraries; empty: none
  } cuda;

  Compat compat;  // enabled unexpected behaviours of DeepSpeed

  BatchKeys batch;  // as written; batch_for(batch, ranks) completes it
  struct Elastic {  // the other members matter only if enabled; batch.elastic then has their values
    bool enabled = false;
    Elasticity keys;
    bool ignore_non_elastic_batch_info = false;
  } elasticity;

  std::optional<optim::Optimizer> optimizer;  // nullopt: not given
  std::vector<optim::ParameterGroup> optimizer_groups;
  optim::LrSchedule scheduler;

  double gradient_clipping = 0;          // largest global L2 norm; 0: off
  bool prescale_gradients = false;       // gradients are divided before they are summed, not after
  double gradient_predivide_factor = 1;  // unless prescaled: divisor before the sum; the rest follows after it
  CommDataType communication_data_type = CommDataType::fp32;  // of gradients in messages, if bits may depend on ranks
  struct Bf16 {
    std::optional<bool> enabled = false;  // absent: auto, until settle_bf16() (train/device.h)
  } bf16;
  struct Fp16 {  // the other members matter only if enabled
    bool enabled = false;
    double loss_scale = 0;             // 0: dynamic, with the following members
    int64_t initial_scale_power = 16;  // begin at 2^this
    int64_t loss_scale_window = 1000;  // steps without an overflow that double the scale
    int64_t hysteresis = 2;            // overflows that halve it
    bool consecutive_hysteresis = false;
    double min_loss_scale = 1;
  } fp16;
  struct ZeroOptimization {
    int64_t stage = 0;
    std::optional<int64_t> reduce_bucket_size, allgather_bucket_size;  // elements; absent: the program's choice
    std::optional<bool> overlap_comm;                                  // absent: the program's choice by transport
    int64_t stage3_param_persistence_threshold = 0;  // vectors of at most this many elements stay whole on every rank
    OffloadDevice offload_optimizer_device = OffloadDevice::none;  // memory of moments and master weights
    OffloadDevice offload_param_device = OffloadDevice::none;      // memory of parameters; cpu is for CPUs only
  } zero_optimization;
  int64_t steps_per_print = 10;
  struct Monitor {  // the other members matter only if enabled
    bool enabled = false;
    std::string output_path;  // empty: in the run's folder, tb/ or csv/
    std::string job_name;     // a subfolder; empty: none
  } tensorboard, csv_monitor;
  bool wall_clock_breakdown = false;
  bool dump_state = false, memory_breakdown = false;  // reports: train/reports/
  struct FlopsProfiler {                              // the other members matter only if enabled
    bool enabled = false;
    int64_t profile_step = 1;   // number of steps before the profiled one
    int64_t module_depth = -1;  // depth of modules in the table; -1: all
    int64_t top_modules = 1;    // modules listed for each depth
    bool detailed = true;       // every module, every kind of operation
    std::string output_file;    // empty: the console
  } flops_profiler;
  struct CommsLogger {  // the other members matter only if enabled
    bool enabled = false;
    bool verbose = false;               // a line for each collective, in addition to the table at the end
    bool prof_all = true;               // all of them; false: those of prof_ops
    bool debug = false;                 // with the content of each
    std::vector<std::string> prof_ops;  // names
  } comms_logger;

  /// Key -> origin of its value ("default.yaml:3:7", "--set train.epochs=1"); keys with their default are absent.
  std::map<std::string, std::string> origins;
};

/// Do evaluations use the average of the weights?
inline bool evaluates_average(const Config& config) { return config.train.ema.decay > 0 && config.train.ema.evaluate; }

/// Do all effective keys have the same values? Origins do not matter.
bool operator==(const Config& a, const Config& b);

}  // namespace ct
