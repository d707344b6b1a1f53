#!/bin/bash
# Trains on two nodes with two ranks each under Slurm. Edit the settings between the lines, then:
#   sbatch tools/jobs/slurm.sh
# At the time limit the run saves, and the job is requeued until the run is complete.
#SBATCH --job-name=cifar-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

# ----------------------------------------------------------------
# module load openmpi
config=resnet18.yaml
output=runs/resnet18
seconds=3600  # the value of --time
# ----------------------------------------------------------------

CIFAR_TRAIN_JOB_END=$(($(date +%s) + seconds))
export CIFAR_TRAIN_JOB_END
# When mpirun is ended, ranks have this many seconds to save. mpirun reports their exit code after this time.
export OMPI_MCA_odls_base_sigkill_timeout=10

hosts=$(mktemp "${TMPDIR:-/tmp}/hosts.XXXXXX") || exit 8
scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\$/ slots=$SLURM_NTASKS_PER_NODE/" >"$hosts"

mpirun --hostfile "$hosts" -np "$SLURM_NTASKS" --map-by "ppr:$SLURM_NTASKS_PER_NODE:node" \
  cifar-train train --config "$config" --output "$output" &
job=$!
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
rm -f "$hosts"

# Slurm requeues jobs whose exit code is in its RequeueExit; without 75 there, the job requeues itself.
if [ "$code" -eq 75 ] && [ -z "$cancelled" ]; then
  case ",$(scontrol show config 2>/dev/null | awk '$1 == "RequeueExit" { print $3 }')," in
    *,75,*) ;;
    *) scontrol requeue "$SLURM_JOB_ID" ;;
  esac
fi
exit "$code"
