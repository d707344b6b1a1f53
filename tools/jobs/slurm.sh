#!/bin/bash
# Trains on two nodes of two ranks under Slurm. Edit what is between the lines, then: sbatch tools/jobs/slurm.sh
# When its time is up the run saves, and the job is queued again, until the run has finished.
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
seconds=3600  # as --time says
# ----------------------------------------------------------------

CIFAR_TRAIN_JOB_END=$(($(date +%s) + seconds))
export CIFAR_TRAIN_JOB_END
# Seconds that mpirun leaves to ranks that save when it is ended; it waits as long before it tells their exit code.
export OMPI_MCA_odls_base_sigkill_timeout=10

hosts=$(mktemp "${TMPDIR:-/tmp}/hosts.XXXXXX") || exit 8
scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\$/ slots=$SLURM_NTASKS_PER_NODE/" >"$hosts"

mpirun --hostfile "$hosts" -np "$SLURM_NTASKS" --map-by "ppr:$SLURM_NTASKS_PER_NODE:node" \
  cifar-train train --config "$config" --output "$output" &
job=$!
cancelled=
# Signals of the scheduler come to this shell: it passes them on, and waits again.
trap 'kill -USR1 "$job" 2>/dev/null' USR1 USR2 XCPU
trap 'cancelled=yes; kill -USR1 "$job" 2>/dev/null' TERM INT
wait "$job"
code=$?
while [ "$code" -gt 128 ] && kill -0 "$job" 2>/dev/null; do
  wait "$job"
  code=$?
done
wait "$job" 2>/dev/null  # it may have ended while a signal was passed on
last=$?
[ "$last" -eq 127 ] || code=$last
rm -f "$hosts"

# Slurm runs jobs again whose exit code is in its RequeueExit; where 75 is not, the job asks for it.
if [ "$code" -eq 75 ] && [ -z "$cancelled" ]; then
  case ",$(scontrol show config 2>/dev/null | awk '$1 == "RequeueExit" { print $3 }')," in
    *,75,*) ;;
    *) scontrol requeue "$SLURM_JOB_ID" ;;
  esac
fi
exit "$code"
