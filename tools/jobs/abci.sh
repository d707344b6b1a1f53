#!/bin/bash
# Trains on nine full nodes of ABCI (Grid Engine) with four GPUs each. The number of ranks must divide 36, because of
# this configuration's batch. Edit the settings between the lines, then:
#   qsub -g GROUP tools/jobs/abci.sh
# At the time limit the run saves and the job ends with 99, so that Grid Engine runs it again.
#$ -N cifar-train
#$ -l rt_F=9
#$ -l h_rt=01:00:00
#$ -cwd
#$ -j y
#$ -notify
#$ -r y
#$ -v USE_SSH=1

# ----------------------------------------------------------------
# source /etc/profile.d/modules.sh
# module load cuda cudnn hpcx
config=imagenet_resnet50.yaml
ds_config=imagenet_ds_config.json
output=runs/imagenet
ranks_per_node=4
seconds=3600  # the value of h_rt
# ----------------------------------------------------------------

CIFAR_TRAIN_JOB_END=$(($(date +%s) + seconds))
export CIFAR_TRAIN_JOB_END
# When mpirun is ended, ranks have this many seconds to save. mpirun reports their exit code after this time.
export OMPI_MCA_odls_base_sigkill_timeout=10

hosts=$(mktemp "${TMPDIR:-/tmp}/hosts.XXXXXX") || exit 8
awk -v slots="$ranks_per_node" '{ print $1, "slots=" slots }' "${SGE_JOB_HOSTLIST:-$PE_HOSTFILE}" >"$hosts"

mpirun --hostfile "$hosts" -np $((NHOSTS * ranks_per_node)) --map-by slot --bind-to none \
  cifar-train train --config "$config" --deepspeed_config "$ds_config" --output "$output" --requeue-code 99 &
job=$!
# This timer replaces Grid Engine's soft limit (s_rt), which does not requeue a job that has restarted on the same host.
(
  trap 'kill "$nap"; exit' TERM
  sleep $((seconds - 120)) &
  nap=$!
  wait "$nap" && kill -USR1 "$job"
) >/dev/null 2>&1 &
timer=$!
# This shell forwards the scheduler's signals to mpirun and waits again.
trap 'kill -USR1 "$job" 2>/dev/null' USR1 USR2 XCPU TERM INT
wait "$job"
code=$?
while [ "$code" -gt 128 ] && kill -0 "$job" 2>/dev/null; do
  wait "$job"
  code=$?
done
wait "$job" 2>/dev/null  # it may have ended while a signal was forwarded
last=$?
[ "$last" -eq 127 ] || code=$last
kill "$timer" 2>/dev/null
rm -f "$hosts"
exit "$code"
