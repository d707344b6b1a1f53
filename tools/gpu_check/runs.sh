# Sourced by ../gpu_check.sh: runs programs. Each is killed at its limit or at the end of its section, because a hung
# program would disturb later measurements. $work is this run's folder; $section_end is the end of the section, as a
# value of SECONDS.

# within SECONDS COMMAND...: runs the command in its own session and kills all processes left in the session. (Killing a
# process group is not enough: mpirun gives each rank its own.)
within() {
  local seconds=$1 status=0 id
  shift
  setsid timeout -k 2 "$seconds" "$@" &
  id=$!
  : >"$work/running/$id"
  wait "$id" 2>/dev/null || status=$?  # the shell would report the killed process
  end_session "$id"
  return "$status"
}

end_session() {  # end_session ID: kills the session's processes
  local left
  for _ in {1..20}; do
    # /proc/N/stat: "N (NAME) STATE PARENT GROUP SESSION ...". Zombies are left out.
    left=$(sed -n "s/^\([0-9]*\) (.*) [^ZX] [0-9-]* [0-9-]* $1 .*/\1/p" /proc/[0-9]*/stat 2>/dev/null)
    [ -n "$left" ] || break
    # shellcheck disable=SC2086
    kill -KILL $left 2>/dev/null
    sleep 0.1
  done
  rm -f "$work/running/$1"
}

end_all() {  # the sessions that a killed section has left
  local file
  for file in "$work"/running/*; do
    [ ! -e "$file" ] || end_session "${file##*/}"
  done
}

# quietly NAME COMMAND...: runs the command for at most $limit seconds (default: GPU_CHECK_LIMIT; at most three times that)
# and the section's time. The output goes to $work/NAME.out, and at the end to the log. Status 124: stopped, or not started.
quietly() {
  local name=$1 status=0 begin=$SECONDS seconds=${limit:-$GPU_CHECK_LIMIT} cut=
  shift
  [ "$seconds" -le $((3 * GPU_CHECK_LIMIT)) ] || seconds=$((3 * GPU_CHECK_LIMIT))
  [ "$seconds" -le $((section_end - SECONDS)) ] || { seconds=$((section_end - SECONDS)) cut=yes; }
  rm -f "$work/$name.cut" "$work/$name.stopped"
  if [ "$seconds" -lt 1 ]; then
    echo "no time left" >"$work/$name.cut"
    printf '\n==== %s: no time left for %s\n' "$section" "$*" >>"$log"
    : >"$work/$name.out"
    return 124
  fi
  within "$seconds" "$@" >"$work/$name.out" 2>&1 </dev/null 3>&- || status=$?
  if [[ $status =~ ^(124|137)$ ]] && [ $((SECONDS - begin)) -ge "$seconds" ]; then
    status=124
    if [ -n "$cut" ]; then echo "stopped after $seconds s: no time left" >"$work/$name.cut"
    else echo "stopped after its $seconds s" >"$work/$name.stopped"; fi
  fi
  {
    printf '\n==== %s: %s\n' "$section" "$*"
    cat "$work/$name.out"
    printf -- '---- exit code %d, %d s\n' "$status" $((SECONDS - begin))
  } >>"$log"
  return "$status"
}

why() {  # the most informative line in $work/NAME.out of a failed run
  local said
  said=$({ grep -m 1 -a '^error:' "$work/$1.out" || grep -m 1 -aE '[Ee]rror|FAILED|Killed' "$work/$1.out" ||
    grep -a . "$work/$1.out" | tail -n 1; } 2>/dev/null)
  if [ -e "$work/$1.stopped" ]; then said="$(cat "$work/$1.stopped")${said:+: $said}"; fi
  printf '%s\n' "${said:-it says nothing}" | cut -c 1-160 | tr '|' '/'
}

libraries() {  # NVIDIA's libraries in the folders that the program searches
  local folder path=${LD_LIBRARY_PATH:-}
  for folder in ${path//:/ } "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda/lib64 \
    "${VIRTUAL_ENV:-/usr}"/{,local/}lib/python3*/{site,dist}-packages/nvidia/*/lib; do
    readlink -e "$folder"/lib{cudnn,cublasLt,nccl,nvrtc}*.so.* 2>/dev/null
  done | sort -u
}

settings() {  # the arguments of all runs
  local word
  printf -- '--set\ndata.path=%s\n' "$data"
  for word in ${GPU_CHECK_SET:-}; do printf -- '--set\n%s\n' "$word"; done
}

# few_images FOLDER: the first images of the data set, in files of the full length. The other images have invalid
# labels, so that data.on_corrupt: skip leaves them out.
few_images() {
  local file from=("$data"/*-10-batches-bin) record=3073 kept
  [ -d "${from[0]}" ] || return
  mkdir -p "$1/cifar-10-batches-bin"
  for file in data_batch_{1..5}.bin test_batch.bin; do
    kept=0
    [[ $file != *_1.bin ]] || kept=$((400 * record))
    [ "$file" != test_batch.bin ] || kept=$((100 * record))
    {
      head -c "$kept" "${from[0]}/$file"
      head -c $((10000 * record - kept)) /dev/zero | tr '\0' '\377'
    } >"$1/cifar-10-batches-bin/$file" || return
  done
}

# train NAME DEVICE WORD...: into $work/NAME
train() {
  local name=$1 device=$2 more
  shift 2
  mapfile -t more < <(settings)
  quietly "$name" "$PROGRAM" train -q --output "$work/$name" --device "$device" "$@" "${more[@]}"
}

train_on_two() {  # train_on_two NAME WORD...
  local name=$1 more
  shift
  mapfile -t more < <(settings)
  quietly "$name" "$MPIRUN" -np 2 "$PROGRAM" train -q --output "$work/$name" --device cuda "$@" "${more[@]}" \
    --set communication.backend=mpi --set communication.share_device=true
}

running=0
turn() {  # `turn; COMMAND &`: limits the number of concurrent runs; call all_done afterwards
  if [ "$running" -ge "$at_once" ]; then
    wait -n
    running=$((running - 1))
  fi
  running=$((running + 1))
}
all_done() {
  wait
  running=0
}
