// Known keys that set nothing in this version. A harmless value is accepted and noted; any other would change the
// result, or promise something that does not happen, and is refused by name.
#include <algorithm>

#include "train/config/schema.h"

namespace ct {

static constexpr const char* kNoSyncBatchNorm =
    "batch norm's statistics are those of a micro-batch, so that they depend on no number of ranks; a larger "
    "train_micro_batch_size_per_gpu makes them steadier";

const std::vector<ForeignKey>& foreign_keys() {
  static const std::vector<ForeignKey> kKeys = {
      // Words of this program's own vocabulary, of later versions.
      {"compat", ""},
      // Batch norm over all ranks, as others call it.
      {"sync_bn", "false", kNoSyncBatchNorm},
      {"sync_batchnorm", "false", kNoSyncBatchNorm},
      {"model.sync_bn", "false", kNoSyncBatchNorm},
      {"model.sync_batchnorm", "false", kNoSyncBatchNorm},
      {"train.sync_bn", "false", kNoSyncBatchNorm},
      {"train.sync_batchnorm", "false", kNoSyncBatchNorm},
      // DeepSpeed: gradients and communication.
      {"prescale_gradients", "false"},
      {"gradient_predivide_factor", "1"},
      {"communication_data_type", "fp32"},
      {"seq_parallel_comm_data_type", "*"},
      {"sparse_gradients", "false"},
      {"disable_allgather", "*"},
      {"data_types.grad_accum_dtype", "fp32"},
      {"dataloader_drop_last", "true"},
      {"use_data_before_expert_parallelism", "*"},
      {"graph_harvesting", "*"},
      // Precision. Master weights and the optimizer's state are always f32.
      {"fp16.fp16_master_weights_and_grads", "false"},
      {"fp16.*", "*"},
      {"bf16.bf16_master_weights_and_grads", "false"},
      {"bf16.bf16_optimizer_states", "false"},
      {"bf16.*", "*"},
      {"amp.enabled", "false"},
      {"amp.*", "*"},
      // ZeRO. Those accepted steer how DeepSpeed moves and keeps its memory; the result is the same.
      {"zero_allow_untested_optimizer", "*"},
      {"zero_force_ds_cpu_optimizer", "*"},
      {"zero_optimization.allgather_partitions", "*"},
      {"zero_optimization.contiguous_gradients", "*"},
      {"zero_optimization.cpu_offload", "false"},
      {"zero_optimization.cpu_offload_param", "false"},
      {"zero_optimization.cpu_offload_use_pin_memory", "*"},
      {"zero_optimization.elastic_checkpoint", "*"},
      {"zero_optimization.ignore_unused_parameters", "*"},
      {"zero_optimization.legacy_stage1", "*"},
      {"zero_optimization.load_from_fp32_weights", "*"},
      {"zero_optimization.log_trace_cache_warnings", "*"},
      {"zero_optimization.memory_efficient_linear", "*"},
      {"zero_optimization.mics_hierarchical_params_gather", "*"},
      {"zero_optimization.mics_shard_size", "-1"},
      {"zero_optimization.offload_optimizer.*", "*"},
      {"zero_optimization.offload_param.device", "none"},
      {"zero_optimization.offload_param.*", "*"},
      {"zero_optimization.override_module_apply", "*"},
      {"zero_optimization.pipeline_loading_checkpoint", "*"},
      {"zero_optimization.reduce_scatter", "*"},
      {"zero_optimization.round_robin_gradients", "*"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "*"},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "*"},
      {"zero_optimization.stage3_max_live_parameters", "*"},
      {"zero_optimization.stage3_max_reuse_distance", "*"},
      {"zero_optimization.stage3_model_persistence_threshold", "*"},
      {"zero_optimization.stage3_module_granularity_threshold", "*"},
      {"zero_optimization.stage3_prefetch_bucket_size", "*"},
      {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "*"},
      {"zero_optimization.sub_group_size", "*"},
      {"zero_optimization.use_multi_rank_bucket_allreduce", "*"},
      {"zero_optimization.zero_hpz_partition_size", "1"},
      {"zero_optimization.zero_quantized_gradients", "false"},
      {"zero_optimization.zero_quantized_nontrainable_weights", "false"},
      {"zero_optimization.zero_quantized_weights", "false"},
      {"zero_optimization.zeropp_loco_param", ""},
      // Records and reports.
      {"dump_state", "*"},
      {"memory_breakdown", "*"},
      {"comms_logger.*", "*"},
      {"wandb.enabled", "false", "tensorboard.enabled writes event files, which wandb sync uploads"},
      {"wandb.*", "*"},
      {"csv_monitor.enabled", "false"},
      {"csv_monitor.*", "*"},
      {"comet.enabled", "false"},
      {"comet.*", "*"},
      {"flops_profiler.enabled", "*"},
      {"flops_profiler.*", "*"},
      // Checkpoints.
      {"checkpoint.tag_validation", "*"},
      {"checkpoint.load_universal", "*"},  // any number of ranks loads any checkpoint anyway
      {"checkpoint.use_node_local_storage", "*"},
      {"checkpoint.parallel_write.*", "*"},
      {"nebula.enabled", "false"},
      {"nebula.*", "*"},
      // Machinery that the tutorial's configurations carry along switched off.
      {"activation_checkpointing.*", "*"},
      {"aio.*", "*"},
      {"autotuning.enabled", "false"},
      {"autotuning.*", "*"},
      {"compression_training", ""},
      {"curriculum_learning.enabled", "false"},
      {"curriculum_learning.*", "*"},
      {"data_efficiency.enabled", "false"},
      {"data_efficiency.*", "*"},
      {"eigenvalue.enabled", "false"},
      {"eigenvalue.*", "*"},
      {"elasticity.enabled", "false"},
      {"elasticity.*", "*"},
      {"hybrid_engine.enabled", "false"},
      {"hybrid_engine.*", "*"},
      {"pipeline.*", "*"},
      {"progressive_layer_drop.enabled", "false"},
      {"progressive_layer_drop.*", "*"},
      {"sparse_attention", ""},
      {"tensor_parallel", ""},
      {"optimizer.legacy_fusion", "*"},
      // Parameters that DeepSpeed's and PyTorch's optimizers take beside ours.
      {"optimizer.params.torch_adam", "false"},
      {"optimizer.params.eps_inside_sqrt", "false"},
      {"optimizer.params.amsgrad", "false"},
      {"optimizer.params.maximize", "false"},
      {"optimizer.params.foreach", "*"},
      {"optimizer.params.fused", "*"},
      {"optimizer.params.capturable", "*"},
      {"optimizer.params.differentiable", "*"},
      {"scheduler.params.cycle_first_stair_count", "0"},  // DeepSpeed takes and ignores other values
      {"scheduler.params.cycle_second_stair_count", "0"},
      {"scheduler.params.last_batch_iteration", "-1"},
      {"scheduler.params.last_epoch", "-1"},
  };
  return kKeys;
}

const ForeignKey* find_foreign(const std::string& key) {
  const auto& keys = foreign_keys();
  const auto find = [&](const std::string& wanted) {
    const auto found =
        std::find_if(keys.begin(), keys.end(), [&](const ForeignKey& known) { return known.key == wanted; });
    return found == keys.end() ? nullptr : &*found;
  };
  if (const ForeignKey* exact = find(key)) return exact;
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? nullptr : find(key.substr(0, dot) + ".*");
}

}  // namespace ct
