# Sourced by ../gpu_check.sh: rows of the table, from the results of runs. $work, $log, $rows and $table are this run's
# files, and $section is the current section.

line() { printf '%-10s %-52s %-9s %-50s %s\n' "$@"; }

row() {  # row CHECK RESULT FIGURE TARGET: prints one line of the table at once
  printf '%s|%s|%s|%s|%s\n' "$section" "$@" >>"$rows"
  line "$section" "$@" >>"$table"
  line "$section" "$@" >&3
}

# The meaning of a row's result.
good='pass|met|reported'
bad='FAIL|MISSED'
unchecked='skipped|not run|not all'
count() { grep -cE "^[^|]*\|[^|]*\|($1)\|" "$rows"; }  # count RESULT: its rows

# rest RESULT WHY: adds a row for each check of plan_SECTION (a CHECK|TARGET a line) that has none.
rest() {
  local check target
  while IFS='|' read -r check target; do
    grep -qF "$section|$check|" "$rows" || row "$check" "$1" "$2" "$target"
  done < <("plan_$section")
}

# failed CHECK NAME TARGET [PREFIX]: the row of a check whose run failed. A run stopped at the end of the section is not
# a failure of the program.
failed() {
  if [ -e "$work/$2.cut" ]; then row "$1" "not run" "${4:-}$(cat "$work/$2.cut")" "$3"
  else row "$1" FAIL "${4:-}$(why "$2")" "$3"; fi
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

# Results of the run in $work/NAME.
losses() { grep -a '"event":"step"' "$work/$1/metrics.jsonl" 2>/dev/null | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
evaluations() {  # their losses
  grep -a '"event":"eval"' "$work/$1/metrics.jsonl" 2>/dev/null | sed 's/.*"loss":\([^,]*\),.*/\1/'
}
weights() { text weights_sha256 "$work/$1/metrics.jsonl"; }

# whole CHECK TARGET PREFIX FILE: did the run or benchmark complete? Incomplete results look the same; if it did not
# complete, the row fails.
whole() {
  local key reason
  for key in not_recorded plans_missed; do
    reason=$(text $key "$4")
    if [ -n "$reason" ]; then
      row "$1" FAIL "$(printf '%s%s: %s' "$3" "$key" "$reason" | cut -c 1-160 | tr '|' '/')" "$2"
      return 1
    fi
  done
}

ended() {  # ended CHECK TARGET NAME...: have all these runs ended? If not, the row fails
  local check=$1 target=$2 name
  shift 2
  for name in "$@"; do
    [ -n "$(weights "$name")" ] || { failed "$check" "$name" "$target" "$name: "; return 1; }
    whole "$check" "$target" "$name: " "$work/$name/metrics.jsonl" || return
  done
}

# distances NAME NAME [STEPS]: the largest relative distance of the losses of two runs, over the first STEPS steps and
# over all; the number of steps that both have.
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
  local check=$1 first=$2 name differ=()
  shift
  ended "$check" "same bits" "$@" || return
  for name in "$@"; do
    printf '%s %s\n' "$(weights "$name")" "$name" >>"$log"
    [ "$(weights "$name")" = "$(weights "$first")" ] || differ+=("$name")
  done
  if [ ${#differ[@]} -eq 0 ]; then row "$check" pass "$# runs" "same bits"
  else row "$check" FAIL "${#differ[@]} of $# differ from $first: ${differ[*]}" "same bits"; fi
}

# close CHECK NAME NAME LIMIT [differ]: met, if the losses of two runs differ by at most LIMIT and, with `differ`,
# differ.
close() {
  local check=$1 a=$2 b=$3 limit=$4 found steps
  ended "$check" "<= $limit" "$a" "$b" || return
  read -r _ found steps < <(distances "$a" "$b")
  if [ "$steps $steps" != "$(losses "$a" | wc -l) $(losses "$b" | wc -l)" ]; then
    row "$check" FAIL "not of the same number of steps" "<= $limit"
  elif [ "${5:-}" = differ ] && [ "$found" = 0 ]; then
    row "$check" FAIL "the losses of $b, bit by bit" "<= $limit"
  else compared "$check" "$found" %.2g "x <= $limit" "<= $limit"; fi
}
