// Keys that set nothing here: DeepSpeed's, and words of other programs.
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "train/config/foreign.h"

namespace ct {
namespace {

/// Is all that a block could switch on switched off? A block that has no switch is no such block.
bool is_off(const document::Node& block, bool& has_switch) {
  for (const document::Entry& entry : block.entries) {
    if (entry.key == "enabled") {
      has_switch = true;
      if (entry.value.kind != document::Kind::boolean || entry.value.boolean) return false;
    }
    if (!is_off(entry.value, has_switch)) return false;
  }
  return true;
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

constexpr const char* kNoSyncBatchNorm =
    "batch norm's statistics are those of a micro-batch, so that they depend on no number of ranks; a larger "
    "train_micro_batch_size_per_gpu makes them steadier";
constexpr const char *kPlan = "the program plans all gathers and releases of parameters before the first step",
                     *kOwnBuffers = "the program's memory plan places all buffers",
                     *kNotPartOfIt = "the program has no such feature", *kNoNvme = "offload to NVMe is not implemented",
                     *kParametersStay = "parameters stay on the device; zero_optimization.stage 3 partitions them",
                     *kWandb = "tensorboard.enabled writes event files, which wandb sync uploads",
                     *kTensorBoard = "tensorboard.enabled writes event files", *kOff = "it is switched off",
                     *kOneWay = "every device uses the same update",
                     *kPlusPlus = "ranks exchange full precision (ZeRO++ is not implemented)",
                     *kMics = "parameters are partitioned over all ranks (MiCS is not implemented)",
                     *kMasters = "master weights and gradients are f32",
                     *kRecompute = "train.recompute recomputes activations instead";

}  // namespace

const std::vector<InertKey>& inert_keys() {
  static const std::vector<InertKey> kKeys = {
      // Batch norm over all ranks, as others call it.
      {"sync_bn", "false", kNoSyncBatchNorm},
      {"sync_batchnorm", "false", kNoSyncBatchNorm},
      {"model.sync_bn", "false", kNoSyncBatchNorm},
      {"model.sync_batchnorm", "false", kNoSyncBatchNorm},
      {"train.sync_bn", "false", kNoSyncBatchNorm},
      {"train.sync_batchnorm", "false", kNoSyncBatchNorm},
      // DeepSpeed: gradients and communication.
      {"seq_parallel_comm_data_type", "*", "sequences are not partitioned"},
      {"seq_parallel_communication_data_type", "*", "sequences are not partitioned"},
      {"sparse_gradients", "false", "no layer has sparse gradients"},
      {"disable_allgather", "*", "DeepSpeed ignores it too"},
      {"fp32_allreduce", "*", "sums are f32 unless communication_data_type sets another type"},
      {"data_types.grad_accum_dtype",
       "fp32|float32|torch.float32|fp16|float16|half|torch.float16|bf16|bfloat16|torch.bfloat16",
       "gradients are added in f32", "not a type of DeepSpeed"},
      {"dataloader_drop_last", "*", "an incomplete step at the end of an epoch is left out, with a message"},
      {"use_data_before_expert_parallelism", "*", "every rank has all experts"},
      {"cuda_visible_devices", "*", "ranks use the GPUs of the environment variable CUDA_VISIBLE_DEVICES"},
      {"graph_harvesting", "*", "cuda.record records steps as CUDA graphs"},
      {"disable_python_gc", "*", "there is no Python"},
      {"log_level", "*", "--quiet and --verbose set the amount of output"},
      {"gradient_allreduce_op", "mean", "gradients are means over the batch"},
      {"expert_parallel", "{}", "every rank has all experts"},
      {"weight_quantization", "{}", kNotPartOfIt},
      {"data_types.keep_in_fp32_modules", "auto|[]", "normalisation and master weights are f32"},
      {"vocabulary_size", "*", "there is no vocabulary"},
      // Precision. Master weights and the optimizer's state are always f32.
      {"fp16.fp16_master_weights_and_grads", "false", kMasters},
      {"fp16.auto_cast", "*", "images are always converted to the compute type"},
      {"bf16.bf16_master_weights_and_grads", "false", kMasters},
      {"bf16.bf16_optimizer_states", "false", "the optimizer's state is f32"},
      {"bf16.immediate_grad_update", "*", "each gradient is added in f32 as soon as it is computed"},
      {"bf16.check_grad_overflow", "*", "a step with a non-finite gradient is always skipped"},
      {"amp.enabled", "false", "use fp16 or bf16, which have f32 masters"},
      {"amp.*", "*", kOff},
      // ZeRO. Those accepted steer how DeepSpeed moves and keeps its memory; the result is the same.
      {"zero_allow_untested_optimizer", "*", "every optimizer is tested with every stage"},
      {"zero_force_ds_cpu_optimizer", "*", kOneWay},
      {"zero_optimization.allgather_partitions", "*", "updated parameters are gathered bucket by bucket"},
      {"zero_optimization.compute_grad_norm", "*", "the norm is computed whenever a key needs it"},
      {"zero_optimization.stage3_allgather_sequential", "*", kPlan},
      {"zero_optimization.parameter_alignment", "*", kOwnBuffers},
      {"zero_optimization.enable_sanity_checks", "*", "communication.check_interval compares ranks"},
      {"zero_optimization.save_muon_momentum_buffer_in_memory", "*", kOwnBuffers},
      {"zero_optimization.leaf_module", "*", "a network is one function"},
      {"zero_optimization.contiguous_gradients", "*", "gradients are always stored in the buffer of their bucket"},
      {"zero_optimization.cpu_offload", "false", "an alias of offload_optimizer"},
      {"zero_optimization.cpu_offload_param", "false", kParametersStay},
      {"zero_optimization.cpu_offload_use_pin_memory", "*", "host memory for transfers to a GPU is always page-locked"},
      {"zero_optimization.elastic_checkpoint", "*", "every checkpoint loads on any number of ranks and in any stage"},
      {"zero_optimization.ignore_unused_parameters", "*", "networks have no unused parameters"},
      {"zero_optimization.legacy_stage1", "*", "stage 1 has one implementation"},
      {"zero_optimization.load_from_fp32_weights", "*", "checkpoints contain the f32 masters, which are always loaded"},
      {"zero_optimization.log_trace_cache_warnings", "*", kPlan},
      {"zero_optimization.memory_efficient_linear", "*", kOwnBuffers},
      {"zero_optimization.mics_hierarchical_params_gather", "*", kMics},
      {"zero_optimization.mics_shard_size", "*", kMics},
      {"zero_optimization.offload_optimizer.nvme_path", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.buffer_count", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.pin_memory", "*",
       "host memory for transfers to a GPU is always page-locked"},
      {"zero_optimization.offload_optimizer.pipeline", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.pipeline_read", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.pipeline_write", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.fast_init", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.super_offload", "false",
       "the update runs on the device that stores the state"},
      {"zero_optimization.offload_optimizer.cpuadam_cores_perc", "*", "--bind_cores_to_rank assigns cores to ranks"},
      {"zero_optimization.offload_optimizer.ratio", "1", "the whole optimizer state is offloaded",
       "Partial offloading only supported for ZeRO Stage 3., and not here"},
      {"zero_optimization.offload_param.nvme_path", "*", kParametersStay},
      {"zero_optimization.offload_param.buffer_count", "*", kParametersStay},
      {"zero_optimization.offload_param.buffer_size", "*", kParametersStay},
      {"zero_optimization.offload_param.max_in_cpu", "*", kParametersStay},
      {"zero_optimization.offload_param.pin_memory", "*", kParametersStay},
      {"zero_optimization.override_module_apply", "*", "a network is one function"},
      {"zero_optimization.pipeline_loading_checkpoint", "*", "ranks read a checkpoint in parallel"},
      {"zero_optimization.reduce_scatter", "*", "stages 1 to 3 always use reduce-scatter"},
      {"zero_optimization.round_robin_gradients", "*", "shards have equal sizes on any number of ranks"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "*", "saved weights are always complete and f32"},
      {"zero_optimization.stage3_max_live_parameters", "*", kPlan},
      {"zero_optimization.stage3_max_reuse_distance", "*", kPlan},
      {"zero_optimization.stage3_model_persistence_threshold", "*", kPlan},
      {"zero_optimization.stage3_module_granularity_threshold", "*", kPlan},
      {"zero_optimization.stage3_prefetch_bucket_size", "*", kPlan},
      {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "*", kPlan},
      {"zero_optimization.sub_group_size", "*", kOwnBuffers},
      {"zero_optimization.use_multi_rank_bucket_allreduce", "*", "stages 1 to 3 always use reduce-scatter"},
      {"zero_optimization.zero_hpz_partition_size", "*",
       "parameters are partitioned over all ranks (hpZ of ZeRO++ is not implemented)"},
      {"zero_optimization.zero_quantized_gradients", "false", kPlusPlus},
      {"zero_optimization.zero_quantized_nontrainable_weights", "false", kPlusPlus},
      {"zero_optimization.zero_quantized_weights", "false", kPlusPlus},
      {"zero_optimization.zenflow", "", "each step updates all parameters at once (ZenFlow is not implemented)"},
      {"zero_optimization.zeropp_loco_param", "", kPlusPlus},
      // Records and reports.
      {"wandb.enabled", "*", kWandb},
      {"wandb.*", "*", kWandb},
      {"comet.enabled", "*", kTensorBoard},
      {"comet.*", "*", kTensorBoard},
      {"flops_profiler.recompute_fwd_factor", "*", "recomputed operations are counted and timed in the backward pass"},
      // Checkpoints.
      {"checkpoint.tag_validation", "Warn|Ignore|Fail", "the tag is the step, on which all ranks agree",
       "Checkpoint config contains invalid tag_validation value, expecting one of ['WARN', 'IGNORE', 'FAIL']"},
      {"checkpoint.load_universal", "*", "every checkpoint loads on any number of ranks and in any stage"},
      {"checkpoint.use_node_local_storage", "*", "checkpoints are in the run's folder, which all hosts share"},
      {"checkpoint.parallel_write.pipeline_stage", "*", "all ranks write a checkpoint in parallel"},
      {"nebula.enabled", "false", "checkpoints are in the run's folder"},
      {"nebula.*", "*", kOff},
      // Machinery that the tutorial's configurations carry along switched off.
      {"activation_checkpointing.partition_activations", "*", kRecompute},
      {"activation_checkpointing.cpu_checkpointing", "*", kRecompute},
      {"activation_checkpointing.contiguous_memory_optimization", "*", kRecompute},
      {"activation_checkpointing.number_checkpoints", "*", kRecompute},
      {"activation_checkpointing.synchronize_checkpoint_boundary", "*", kRecompute},
      {"activation_checkpointing.profile", "*", kRecompute},
      {"aio.*", "*", kNoNvme},
      {"autotuning.enabled", "false", kNotPartOfIt},
      {"autotuning.*", "*", kOff},
      {"compression_training", "{}|off", kNotPartOfIt},
      {"curriculum_learning.enabled", "false", kNotPartOfIt},
      {"curriculum_learning.*", "*", kOff},
      {"data_efficiency.enabled", "false", kNotPartOfIt},
      {"data_efficiency.*", "*", kOff},
      {"eigenvalue.enabled", "false", kNotPartOfIt},
      {"eigenvalue.*", "*", kOff},
      {"elasticity.min_time", "*", "a run can stop and continue at any time"},
      {"elasticity.model_parallel_size", "1", "layers are not partitioned over ranks"},
      {"hybrid_engine.enabled", "false", kNotPartOfIt},
      {"hybrid_engine.*", "*", kOff},
      {"pipeline.*", "*", "there are no pipeline stages"},
      {"progressive_layer_drop.enabled", "false", kNotPartOfIt},
      {"progressive_layer_drop.*", "*", kOff},
      {"compile.*", "*", "nothing is compiled at run time"},
      {"quantize_training.enabled", "false", kNotPartOfIt},
      {"quantize_training.*", "*", kOff},
      {"sparse_attention", "{}", kNotPartOfIt},
      {"tensor_parallel", "{}|{autotp_size: 0}|{autotp_size: 1}", "layers are not partitioned over ranks"},
      {"timers.throughput.enabled", "*", "lines of progress with -v always contain samples/s"},
      {"timers.throughput.synchronized", "*", "lines of progress with -v always contain samples/s"},
      {"torch_autocast.enabled", "false", "use bf16 or fp16, which have f32 masters"},
      {"torch_autocast.*", "*", kOff},
      {"optimizer.legacy_fusion", "*", kOneWay},
      // Parameters that DeepSpeed's and PyTorch's optimizers take beside ours.
      {"optimizer.params.torch_adam", "*", kOneWay},
      {"optimizer.params.adam_w_mode", "*", "only Adam has this key; the decay of AdamW is always decoupled"},
      {"optimizer.params.eps_inside_sqrt", "false", "eps is always added after the square root"},
      {"optimizer.params.amsgrad", "false", "AMSGrad is not implemented"},
      {"optimizer.params.maximize", "false", "the loss is always minimised"},
      {"optimizer.params.foreach", "*", kOneWay},
      {"optimizer.params.fused", "*", kOneWay},
      {"optimizer.params.capturable", "*", kOneWay},
      {"optimizer.params.differentiable", "*", kOneWay},
      {"scheduler.params.cycle_first_stair_count", "*", "DeepSpeed ignores it too"},
      {"scheduler.params.cycle_second_stair_count", "*", "DeepSpeed ignores it too"},
      {"scheduler.params.last_batch_iteration", "-1", "a resumed run restores its position"},
      {"scheduler.params.last_epoch", "-1", "a resumed run restores its position"},
  };
  return kKeys;
}

const InertKey* find_inert(const std::string& key) {
  const auto& keys = inert_keys();
  const auto find = [&](const std::string& wanted) {
    const auto found =
        std::find_if(keys.begin(), keys.end(), [&](const InertKey& known) { return known.key == wanted; });
    return found == keys.end() ? nullptr : &*found;
  };
  if (const InertKey* exact = find(key)) return exact;
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? nullptr : find(key.substr(0, dot) + ".*");
}

bool is_harmless(const InertKey& inert, const document::Node& value) {
  if (value.kind == document::Kind::null) return true;  // as if it were absent
  if (inert.harmless.empty()) return false;
  if (inert.harmless == "*") return true;
  const std::string text = value.kind == document::Kind::text ? value.text : document::flow(value);
  if (text == "auto") return true;  // DeepSpeed's: as if it were absent
  for (const std::string& word : harmless_values(inert)) {
    if (word != kSwitchedOff && same_letters(text, word)) return true;
    if (bool has_switch = false; word == kSwitchedOff && is_off(value, has_switch) && has_switch) return true;
  }
  return false;
}

std::string refusal_of(const InertKey& inert, const std::string& key, const document::Node& value) {
  const std::string& why = inert.refusal.empty() ? inert.why : inert.refusal;
  const bool none = inert.harmless.empty();
  std::string instead;
  for (const char c : inert.harmless) instead += c == '|' ? std::string(" or ") : std::string(1, c);
  if (instead.ends_with(" or off")) instead.replace(instead.size() - 3, 3, "enabled: false in each of its blocks");
  const bool block = value.kind == document::Kind::map;  // its name says enough
  return str(key, none || block ? "" : " " + document::brief(value), " is not supported by this version; ",
             none ? "remove it" : "use " + instead, ": ", why);
}

}  // namespace ct
