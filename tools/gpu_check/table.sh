# Sourced by ../gpu_check.sh: what sections are written with. $work, $log, $rows and $data are this run's files, and
# $section is the section that runs.

row() {  # row CHECK RESULT FIGURE TARGET: one line of the table
  printf '%s|%s|%s|%s|%s\n' "$section" "$1" "$2" "$3" "$4" >>"$rows"
}

# What a row's result means.
good='pass|met|reported'
bad='FAIL|MISSED'
unchecked='skipped|not run|not all'
count() { grep -cE "^[^|]*\|[^|]*\|($1)\|" "$rows"; }  # count RESULT: its rows

# rest RESULT WHY: what of this section's plan_SECTION (CHECK|TARGET in each line) has no row yet gets one.
rest() {
  local check target
  while IFS='|' read -r check target; do
    grep -qF "$section|$check|" "$rows" || row "$check" "$1" "$2" "$target"
  done < <("plan_$section")
}

print_table() {
  {
    printf '%s\n%s, %s\n' "$("$PROGRAM" --version 2>/dev/null | head -n 1)" "${device:-no nvidia-smi}" \
      "$(date -u '+%Y-%m-%d %H:%M UTC')"
    printf '%d pass, met or reported; %d FAIL or MISSED; %d skipped or not run\n\n' \
      "$(count "$good")" "$(count "$bad")" "$(count "$unchecked")"
    printf '%-10s %-52s %-9s %-50s %s\n' section check result figure target
    while IFS='|' read -r name check result figure target; do
      printf '%-10s %-52s %-9s %-50s %s\n' "$name" "$check" "$result" "$figure" "$target"
    done <"$rows"
  } >"$table.part"
  mv "$table.part" "$table"
}

# quietly NAME COMMAND...: output to $work/NAME.out, and to the log when it is all there.
quietly() {
  local name=$1 status=0
  shift
  "$@" >"$work/$name.out" 2>&1 </dev/null || status=$?
  {
    printf '\n==== %s: %s\n' "$section" "$*"
    cat "$work/$name.out"
    printf -- '---- exit code %d\n' "$status"
  } >>"$log"
  return "$status"
}

why() {  # the line of $work/NAME.out that tells most
  { grep -m 1 -aE '^error:|[Ee]rror|FAILED|Killed' "$work/$1.out" || grep -a . "$work/$1.out" | tail -n 1; } 2>/dev/null |
    cut -c 1-160 | tr '|' '/'
}

number() {  # number KEY FILE: the last "KEY": NUMBER of a file of JSON
  grep -oE "\"$1\": ?-?[0-9.eE+-]+" "$2" 2>/dev/null | tail -n 1 | sed 's/.*: *//'
}
text() {  # text KEY FILE
  grep -oE "\"$1\": ?\"[^\"]*\"" "$2" 2>/dev/null | tail -n 1 | sed 's/.*: *"//; s/"$//'
}
compared() {  # compared CHECK VALUE FORMAT CONDITION TARGET: met or MISSED, by an awk condition on x
  local result=MISSED
  if [ -z "$2" ]; then
    row "$1" FAIL "no figure" "$5"
    return
  fi
  ! awk -v x="$2" "BEGIN {exit !($4)}" 2>/dev/null || result=met
  row "$1" "$result" "$(awk -v x="$2" -v f="$3" 'BEGIN {printf f, x}')" "$5"
}

settings() {  # the words of all runs
  local word
  printf -- '--set\ndata.path=%s\n' "$data"
  for word in ${GPU_CHECK_SET:-}; do printf -- '--set\n%s\n' "$word"; done
}

# train NAME DEVICE WORD...: into $work/NAME
train() {
  local name=$1 device=$2 more
  shift 2
  mapfile -t more < <(settings)
  quietly "$name" "$PROGRAM" train -q --output "$work/$name" --device "$device" "$@" "${more[@]}"
}

running=0
in_turn() {  # in_turn COMMAND...: beside at most so many others; `wait` for all of them afterwards
  if [ "$running" -ge "$at_once" ]; then
    wait -n
    running=$((running - 1))
  fi
  "$@" &
  running=$((running + 1))
}

# Of a run into $work/NAME.
losses() { grep -a '"event":"step"' "$work/$1/metrics.jsonl" 2>/dev/null | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
weights() { text weights_sha256 "$work/$1/metrics.jsonl"; }

# distances NAME NAME [STEPS]: largest relative distance of the losses of two runs, over the first so many steps and
# over all; the steps that both have.
distances() {
  paste <(losses "$1") <(losses "$2") | awk -v short="${3:-0}" '
    NF < 2 {exit}
    {++n
     d = $1 + 0 == 0 || $2 + 0 == 0 ? 1 : ($1 - $2) / $1
     if (d < 0) d = -d
     if (n <= short && d > a) a = d
     if (d > b) b = d}
    END {if (n) printf "%.3g %.3g %d\n", a, b, n}'
}

# alike CHECK NAME...: pass, if all these runs ended with the weights of the first.
alike() {
  local check=$1 first=$2 name sha same=0
  shift
  for name in "$@"; do
    sha=$(weights "$name")
    printf '%s %s\n' "$sha" "$name" >>"$log"
    if [ -z "$sha" ]; then row "$check: $name" FAIL "$(why "$name")" "ends well"
    elif [ "$sha" != "$(weights "$first")" ]; then row "$check: $name" FAIL "differs from $first" "same bits"
    else same=$((same + 1)); fi
  done
  if [ "$same" -eq $# ]; then row "$check" pass "$same runs" "same bits"
  else row "$check" FAIL "$same of $# runs alike" "same bits"; fi
}

# close CHECK NAME NAME LIMIT [differ]: met, if the losses of two runs are so close and, where told, not the same.
close() {
  local check=$1 a=$2 b=$3 limit=$4 name found steps
  for name in "$a" "$b"; do
    if [ -z "$(weights "$name")" ]; then
      row "$check" FAIL "$name: $(why "$name")" "<= $limit"
      return
    fi
  done
  read -r _ found steps < <(distances "$a" "$b")
  if [ "$steps $steps" != "$(losses "$a" | wc -l) $(losses "$b" | wc -l)" ]; then
    row "$check" FAIL "not of the same number of steps" "<= $limit"
  elif [ "${5:-}" = differ ] && [ "$found" = 0 ]; then
    row "$check" FAIL "the losses of $b, bit by bit" "<= $limit"
  else compared "$check" "$found" %.2g "x <= $limit" "<= $limit"; fi
}
