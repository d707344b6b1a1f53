#!/bin/bash
# Trains on two nodes of Miyabi (PBS) with a GPU each. The number of ranks must divide 36, because of this
# configuration's batch. Edit the settings between the lines and GROUP, then:
#   qsub -v JOB_SCRIPT=$PWD/tools/jobs/miyabi.sh tools/jobs/miyabi.sh
# At the time limit the run saves, and the job submits itself again until the run is complete.
#PBS -N cifar-train
#PBS -q regular-g
#PBS -l select=2:mpiprocs=1
#PBS -l walltime=01:00:00
#PBS -W group_list=GROUP
#PBS -j oe
#PBS -r y

# ----------------------------------------------------------------
# module load cuda ompi-cuda
config=imagenet_resnet50.yaml
ds_config=imagenet_ds_config.json
output=runs/imagenet
seconds=3600  # the value of walltime
# ----------------------------------------------------------------

cd "$PBS_O_WORKDIR" || exit 8
CIFAR_TRAIN_JOB_END=$(($(date +%s) + seconds))
export CIFAR_TRAIN_JOB_END
# When mpirun is ended, ranks have this many seconds to save. mpirun reports their exit code after this time.
export OMPI_MCA_odls_base_sigkill_timeout=10

hosts=$(mktemp "${TMPDIR:-/tmp}/hosts.XXXXXX") || exit 8
awk '!($1 in n) { order[++hosts] = $1 } { ++n[$1] } END { for (i = 1; i <= hosts; ++i) print order[i], "slots=" n[order[i]] }' \
  "$PBS_NODEFILE" >"$hosts"

mpirun --hostfile "$hosts" -np "$(wc -l <"$PBS_NODEFILE")" --map-by slot --bind-to none \
  cifar-train train --config "$config" --deepspeed_config "$ds_config" --output "$output" &
job=$!
# PBS sends no signal before the limit: this timer does.
(
  trap 'kill "$nap"; exit' TERM
  sleep $((seconds - 120)) &
  nap=$!
  wait "$nap" && kill -USR1 "$job"
) >/dev/null 2>&1 &
timer=$!
cancelled=
# This shell forwards the scheduler's signals to mpirun and waits again.
trap 'kill -USR1 "$job" 2>/dev/null' USR1 USR2 XCPU
trap 'cancelled=yes; kill -USR1 "$job" 2>/dev/null' TERM INT
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

if [ "$code" -eq 75 ] && [ -z "$cancelled" ] && [ -n "${JOB_SCRIPT:-}" ]; then
  qsub -v JOB_SCRIPT="$JOB_SCRIPT" "$JOB_SCRIPT"
fi
exit "$code"
