"""tools/gpu_check.sh: the section features finds a wrong result of every feature."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from gpu_check import *

FEATURES = 16  # rows
# Its runs differ by their folders' names alone, and the wrong ones by the variable WRONG.
FEATURED = r"""
for word; do
  case $before in --output) out=$word ;; --device) device=$word ;; --ckpt) ckpt=$word ;; esac
  before=$word
done
name=${out##*/}
if [ "$1" = train ]; then
  [ "$WRONG" != fails ] || { echo "error: no memory"; exit 6; }
  loss=2 skipped=0 last=0
  case $name in
    f32 | offload | stopped) weights=a ;;
    two) weights=b ;;
    tuned*) weights=c ;;
    skips*) weights=d skipped=1 last=2 ;;
    bf16 | fp16 | *-bf16 | *-fp16) weights=$name loss=2.001 ;;
    *) weights=$name ;;
  esac
  if [ "$WRONG" = all ]; then
    case $name in
      offload | stopped | tuned-once-more | skips-unrecorded) weights=wrong ;;
      bf16) loss=2 ;;
      skips) skipped=0 ;;
      two-cpu | fp16 | tuned | tf32 | resnet18-cpu | resnet18-*16) loss=3 ;;
    esac
  fi
  [ "$WRONG$name" != someskips ] || last=3
  mkdir -p "$out/ckpt/step-00000004"
  echo '{"plans": "key\\tplan"}' >"$out/ckpt/step-00000004/state.json"
  [ "$WRONG" != some ] || echo '{"plans": ""}' >"$out/ckpt/step-00000004/state.json"
  {
    for count in "$skipped" 2 "$last"; do
      echo "{\"event\":\"step\",\"loss\":$loss,\"skipped\":$count,\"samples\":1}"
    done
    echo "{\"event\":\"end\",\"weights_sha256\":\"$weights\"}"
  } >"$out/metrics.jsonl"
fi
if [ "$1" = eval ]; then
  [ "$WRONG" != fails ] || exit 1
  [ "$WRONG$device" = allcuda ] && loss=1.1 || loss=1
  echo "{\"event\":\"eval\",\"loss\":$loss,\"images\":100}"
fi
if [ "$1 $2" = "bench reduce" ]; then
  [ -z "$WRONG" ] || { echo "error: the sum over ranks differs from the tree"; exit 1; }
  echo '{"ms": 1.5, "equal_to_tree": true}'
fi
exit 0
"""


@functools.lru_cache(None)
def features(wrong=""):
    done, rows, _ = gpu_check("features-" + wrong, "features", PROGRAM=script("featured", FEATURED),
                              GPU_CHECK_DATA=scratch(), WRONG=wrong)
    text = "\n".join(map(str, rows.items())) + done.stderr
    return done, {check: row for (_, check), row in rows.items()}, text


@check
def features_that_hold():
    done, rows, text = features()
    expect_equal(len(rows), FEATURES, text)
    expect_equal({result for result, _ in rows.values()}, {"pass", "met"}, text)
    expect_equal(done.returncode, DONE, text)


@check
def a_wrong_result_of_every_feature_is_found():
    """All compared results differ, or no program runs: no row may pass."""
    right = features()[1]
    for wrong in ("all", "fails"):
        done, rows, text = features(wrong)
        expect_equal({check: rows[check][0] for check in right if rows[check][0] not in ("FAIL", "MISSED")}, {}, text)
        expect_equal(done.returncode, BUG, text)
    rows = features("some")[1]
    expect_equal([name for name in right if rows[name][0] == "FAIL" and "reduce" not in name],
                 ["fp16, a scale too large: steps skipped", "autotune, resumed twice from its plans"], rows)


@check
def features_on_the_host():
    """With the whole program. A linear layer overflows at no scale and has no plans: two rows fail."""
    need_on_host()
    done, rows, _ = gpu_check("featured-on-host", "features:300", PROGRAM=ON_HOST, ON_HOST_DEVICES="1",
                              GPU_CHECK_DATA=few(train=200, test=100), GPU_CHECK_SET="model.name=linear",
                              GPU_CHECK_SECONDS="0.001")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(len(rows), FEATURES, text)
    expect_equal([check for (_, check), (result, _) in rows.items() if result not in ("pass", "met")],
                 ["fp16, a scale too large: steps skipped", "autotune, resumed twice from its plans"], text)
    expect_equal(done.returncode, BUG, text)


main()
