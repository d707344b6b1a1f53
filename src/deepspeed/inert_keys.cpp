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
constexpr const char *kPlan = "what is fetched and released, and when, is planned before the first step",
                     *kOwnBuffers = "buffers are placed by the program's own memory plan",
                     *kNotPartOfIt = "it is no part of this program", *kNoNvme = "nothing is kept on NVMe",
                     *kParametersStay = "parameters stay on the device; zero_optimization.stage 3 shares them out",
                     *kWandb = "tensorboard.enabled writes event files, which wandb sync uploads",
                     *kTensorBoard = "tensorboard.enabled writes event files", *kOff = "it is switched off",
                     *kOneWay = "there is one way to update, which is the same on every device",
                     *kPlusPlus = "what ranks exchange keeps its precision (ZeRO++ is not built)",
                     *kMics = "shards are those of all ranks (MiCS is not built)",
                     *kMasters = "master weights and gradients are f32",
                     *kRecompute = "train.recompute computes activations again in place of keeping them";

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
      {"seq_parallel_comm_data_type", "*", "no sequence is shared out"},
      {"seq_parallel_communication_data_type", "*", "no sequence is shared out"},
      {"sparse_gradients", "false", "no layer here has sparse gradients"},
      {"disable_allgather", "*", "it does nothing in DeepSpeed either"},
      {"fp32_allreduce", "*", "sums are f32 unless communication_data_type says otherwise"},
      {"data_types.grad_accum_dtype",
       "fp32|float32|torch.float32|fp16|float16|half|torch.float16|bf16|bfloat16|torch.bfloat16",
       "gradients are added in f32", "it names no type of DeepSpeed's"},
      {"dataloader_drop_last", "*", "what is left over of an epoch is left out, and said"},
      {"use_data_before_expert_parallelism", "*", "every rank has all experts"},
      {"cuda_visible_devices", "*", "ranks take the GPUs that the environment's CUDA_VISIBLE_DEVICES leaves"},
      {"graph_harvesting", "*", "cuda.record records steps as CUDA graphs"},
      {"disable_python_gc", "*", "there is no Python"},
      {"log_level", "*", "--quiet and --verbose say how much is printed"},
      {"gradient_allreduce_op", "mean", "gradients are means over the batch"},
      {"expert_parallel", "{}", "every rank has all experts"},
      {"weight_quantization", "{}", kNotPartOfIt},
      {"data_types.keep_in_fp32_modules", "auto|[]", "normalisation computes in f32, and so do master weights"},
      {"vocabulary_size", "*", "there is no vocabulary"},
      // Precision. Master weights and the optimizer's state are always f32.
      {"fp16.fp16_master_weights_and_grads", "false", kMasters},
      {"fp16.auto_cast", "*", "images are always made in the type that layers compute in"},
      {"bf16.bf16_master_weights_and_grads", "false", kMasters},
      {"bf16.bf16_optimizer_states", "false", "the optimizer's state is f32"},
      {"bf16.immediate_grad_update", "*", "gradients are added in f32 as soon as they are there"},
      {"bf16.check_grad_overflow", "*", "a step whose gradient is not finite is always skipped"},
      {"amp.enabled", "false", "fp16 or bf16 take its place, with f32 masters"},
      {"amp.*", "*", kOff},
      // ZeRO. Those accepted steer how DeepSpeed moves and keeps its memory; the result is the same.
      {"zero_allow_untested_optimizer", "*", "every optimizer here is tested with every stage that takes it"},
      {"zero_force_ds_cpu_optimizer", "*", kOneWay},
      {"zero_optimization.allgather_partitions", "*", "updated parameters are gathered bucket by bucket"},
      {"zero_optimization.compute_grad_norm", "*", "the norm is computed where it is asked for"},
      {"zero_optimization.stage3_allgather_sequential", "*", kPlan},
      {"zero_optimization.parameter_alignment", "*", kOwnBuffers},
      {"zero_optimization.enable_sanity_checks", "*", "communication.check_interval compares ranks"},
      {"zero_optimization.save_muon_momentum_buffer_in_memory", "*", kOwnBuffers},
      {"zero_optimization.leaf_module", "*", "a network is one function"},
      {"zero_optimization.contiguous_gradients", "*", "gradients always lie in the buffer of their bucket"},
      {"zero_optimization.cpu_offload", "false", "it is another name of offload_optimizer"},
      {"zero_optimization.cpu_offload_param", "false", kParametersStay},
      {"zero_optimization.cpu_offload_use_pin_memory", "*", "what a GPU exchanges with the host is always page-locked"},
      {"zero_optimization.elastic_checkpoint", "*", "any number of ranks and any stage loads any checkpoint"},
      {"zero_optimization.ignore_unused_parameters", "*", "a network has no unused parameters here"},
      {"zero_optimization.legacy_stage1", "*", "there is one stage 1"},
      {"zero_optimization.load_from_fp32_weights", "*", "checkpoints hold the f32 masters, and these are loaded"},
      {"zero_optimization.log_trace_cache_warnings", "*", kPlan},
      {"zero_optimization.memory_efficient_linear", "*", kOwnBuffers},
      {"zero_optimization.mics_hierarchical_params_gather", "*", kMics},
      {"zero_optimization.mics_shard_size", "*", kMics},
      {"zero_optimization.offload_optimizer.nvme_path", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.buffer_count", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.pin_memory", "*",
       "what a GPU exchanges with the host is always page-locked"},
      {"zero_optimization.offload_optimizer.pipeline", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.pipeline_read", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.pipeline_write", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.fast_init", "*", kNoNvme},
      {"zero_optimization.offload_optimizer.super_offload", "false", "the update runs where the state lies"},
      {"zero_optimization.offload_optimizer.cpuadam_cores_perc", "*", "a rank has its cores by --bind_cores_to_rank"},
      {"zero_optimization.offload_optimizer.ratio", "1", "the optimizer's state is offloaded whole",
       "Partial offloading only supported for ZeRO Stage 3., and not here"},
      {"zero_optimization.offload_param.nvme_path", "*", kParametersStay},
      {"zero_optimization.offload_param.buffer_count", "*", kParametersStay},
      {"zero_optimization.offload_param.buffer_size", "*", kParametersStay},
      {"zero_optimization.offload_param.max_in_cpu", "*", kParametersStay},
      {"zero_optimization.offload_param.pin_memory", "*", kParametersStay},
      {"zero_optimization.override_module_apply", "*", "a network is one function"},
      {"zero_optimization.pipeline_loading_checkpoint", "*", "ranks read a checkpoint side by side"},
      {"zero_optimization.reduce_scatter", "*", "stages 1 to 3 always reduce to the owners"},
      {"zero_optimization.round_robin_gradients", "*", "shards are even for any number of ranks"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "*", "what is saved is always whole, and f32"},
      {"zero_optimization.stage3_max_live_parameters", "*", kPlan},
      {"zero_optimization.stage3_max_reuse_distance", "*", kPlan},
      {"zero_optimization.stage3_model_persistence_threshold", "*", kPlan},
      {"zero_optimization.stage3_module_granularity_threshold", "*", kPlan},
      {"zero_optimization.stage3_prefetch_bucket_size", "*", kPlan},
      {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "*", kPlan},
      {"zero_optimization.sub_group_size", "*", kOwnBuffers},
      {"zero_optimization.use_multi_rank_bucket_allreduce", "*", "stages 1 to 3 always reduce to the owners"},
      {"zero_optimization.zero_hpz_partition_size", "*", "shards are those of all ranks (hpZ of ZeRO++ is not built)"},
      {"zero_optimization.zero_quantized_gradients", "false", kPlusPlus},
      {"zero_optimization.zero_quantized_nontrainable_weights", "false", kPlusPlus},
      {"zero_optimization.zero_quantized_weights", "false", kPlusPlus},
      {"zero_optimization.zenflow", "", "the optimizer's step is whole, and counts at once (ZenFlow is not built)"},
      {"zero_optimization.zeropp_loco_param", "", kPlusPlus},
      // Records and reports.
      {"wandb.enabled", "*", kWandb},
      {"wandb.*", "*", kWandb},
      {"comet.enabled", "*", kTensorBoard},
      {"comet.*", "*", kTensorBoard},
      {"flops_profiler.recompute_fwd_factor", "*", "what is computed again is counted and timed as it is"},
      // Checkpoints.
      {"checkpoint.tag_validation", "Warn|Ignore|Fail", "ranks agree on the step that they save, and it is the tag",
       "Checkpoint config contains invalid tag_validation value, expecting one of ['WARN', 'IGNORE', 'FAIL']"},
      {"checkpoint.load_universal", "*", "any number of ranks and any stage loads any checkpoint"},
      {"checkpoint.use_node_local_storage", "*", "checkpoints lie in the run's folder, which all hosts share"},
      {"checkpoint.parallel_write.pipeline_stage", "*", "all ranks write a checkpoint side by side"},
      {"nebula.enabled", "false", "checkpoints lie in the run's folder"},
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
      {"elasticity.min_time", "*", "a run stops and goes on at any time"},
      {"elasticity.model_parallel_size", "1", "no layer is shared out among ranks"},
      {"hybrid_engine.enabled", "false", kNotPartOfIt},
      {"hybrid_engine.*", "*", kOff},
      {"pipeline.*", "*", "there are no pipeline stages"},
      {"progressive_layer_drop.enabled", "false", kNotPartOfIt},
      {"progressive_layer_drop.*", "*", kOff},
      {"compile.*", "*", "nothing is compiled while it runs"},
      {"quantize_training.enabled", "false", kNotPartOfIt},
      {"quantize_training.*", "*", kOff},
      {"sparse_attention", "{}", kNotPartOfIt},
      {"tensor_parallel", "{}|{autotp_size: 0}|{autotp_size: 1}", "no layer is shared out among ranks"},
      {"timers.throughput.enabled", "*", "lines of progress always have samples/s"},
      {"timers.throughput.synchronized", "*", "lines of progress always have samples/s"},
      {"torch_autocast.enabled", "false", "bf16 or fp16 take its place, with f32 masters"},
      {"torch_autocast.*", "*", kOff},
      {"optimizer.legacy_fusion", "*", kOneWay},
      // Parameters that DeepSpeed's and PyTorch's optimizers take beside ours.
      {"optimizer.params.torch_adam", "*", kOneWay},
      {"optimizer.params.adam_w_mode", "*", "it is Adam's: AdamW's decay is always decoupled"},
      {"optimizer.params.eps_inside_sqrt", "false", "eps is added behind the root, as everywhere"},
      {"optimizer.params.amsgrad", "false", "AMSGrad is not built"},
      {"optimizer.params.maximize", "false", "the loss is made less"},
      {"optimizer.params.foreach", "*", kOneWay},
      {"optimizer.params.fused", "*", kOneWay},
      {"optimizer.params.capturable", "*", kOneWay},
      {"optimizer.params.differentiable", "*", kOneWay},
      {"scheduler.params.cycle_first_stair_count", "*", "it does nothing in DeepSpeed either"},
      {"scheduler.params.cycle_second_stair_count", "*", "it does nothing in DeepSpeed either"},
      {"scheduler.params.last_batch_iteration", "-1", "a run that continues knows where it was"},
      {"scheduler.params.last_epoch", "-1", "a run that continues knows where it was"},
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
