"""tools/gpu_check.sh: the sections ladder, feeding, training and bits, and their rows for wrong losses and weights."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from gpu_check import *


@check
def losses_and_bits_are_compared():
    need_on_host()
    done, rows, files = gpu_check(
        "on-host", "training:200", "bits:200", PROGRAM=ON_HOST, GPU_CHECK_DATA=few(train=80, test=8),
        GPU_CHECK_STEPS="2 3", GPU_CHECK_SEEDS="2",
        GPU_CHECK_SET="model.name=linear data.on_corrupt=skip train.eval_batch_size=8", ON_HOST_DEVICES="1")
    text = "\n".join(map(str, rows.items())) + done.stderr
    for optimizer in ("SGD", "AdamW"):
        result, figure = rows["training", optimizer + ", sets of weights within 1e-5 over 2 steps"]
        expect_equal(result, "met", text)
        expect(figure.startswith("2, the furthest "), text)
        result, figure = rows["training", optimizer + ", 2 sets, 3 steps, median"]
        expect_equal(result, "met", text)
        expect(0 <= float(figure) <= 1e-5, text)
        expect_equal(rows["training", optimizer + ", the same run twice"][0], "pass", text)
    expect_equal(rows["bits", "1 rank, stages 0-3, recorded or not"], ("pass", "8 runs"), text)
    two = rows["bits", "2 ranks on one GPU, stages 0-3, recorded or not"]
    expect_equal(two, ("pass", "9 runs") if has_mpi() else ("skipped", "there is no mpirun"), text)
    expect_equal(done.returncode, DONE if has_mpi() else NOT_ALL, text)
    expect_equal(sorted(files), ["gpu_check.log", "gpu_check.txt"])


# How a made-up program that only trains begins: $out is its folder, $device and $seed are what it was told.
TRAINS = r"""
for word; do
  case $before in --output) out=$word ;; --device) device=$word ;; esac
  case $word in seed=*) seed=${word#seed=} ;; esac
  before=$word
done
[ "$1" = train ] || exit 0
mkdir -p "$out"
"""


@check
def different_losses_are_found():
    """A program whose devices have different losses, and one run that ends early."""
    program = script("other", TRAINS + r'''
[ "$device" = cpu ] && losses="2 1 0.5" || losses="2.00001 1.1 0.5"
[ "$out" = "${out%AdamW-cuda-2}" ] || losses="2 1"
for loss in $losses; do echo "{\"event\":\"step\",\"loss\":$loss,\"lr\":1}"; done >"$out/metrics.jsonl"
[ "$out" = "${out%SGD-cpu-2}" ] || { echo "error: no memory"; exit 6; }
echo "{\"event\":\"end\",\"weights_sha256\":\"$out\"}" >>"$out/metrics.jsonl"
''')
    done, rows, _ = gpu_check("different", "training", PROGRAM=program, GPU_CHECK_DATA=scratch(), GPU_CHECK_STEPS="1 3",
                              GPU_CHECK_SEEDS="2")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["training", "SGD, sets of weights within 1e-5 over 1 steps"],
                 ("FAIL", "SGD-cpu-2: error: no memory"), text)
    expect_equal(rows["training", "SGD, 2 sets, 3 steps, median"], ("FAIL", "SGD-cpu-2: error: no memory"), text)
    expect_equal(rows["training", "SGD, the same run twice"][0], "FAIL", text)  # their weights differ
    expect_equal(rows["training", "AdamW"], ("FAIL", "not all runs have 3 steps"), text)
    expect_equal(rows["training", "AdamW, sets of weights within 1e-5 over 1 steps"][0], "met", text)
    expect_equal(rows["training", "AdamW, 2 sets, 3 steps, median"], ("MISSED", "0.05"), text)
    expect_equal(done.returncode, BUG, text)


@check
def adamw_may_lose_three_sets_of_ten_and_sgd_none():
    """One step each, with the losses of some sets off by a thousandth."""
    program = script("jumps", TRAINS + r'''
loss=2
[ "$device" = cpu ] || [ "$seed" -gt "$JUMPS" ] || loss=2.002
echo "{\"event\":\"step\",\"loss\":$loss,\"lr\":1}" >"$out/metrics.jsonl"
echo "{\"event\":\"end\",\"weights_sha256\":\"$seed\"}" >>"$out/metrics.jsonl"
''')
    for jumps, sgd, adamw in ((3, "MISSED", "met"), (4, "MISSED", "MISSED")):
        _, rows, _ = gpu_check("jumps-%d" % jumps, "training", PROGRAM=program, GPU_CHECK_DATA=scratch(),
                               GPU_CHECK_STEPS="1 1", JUMPS=str(jumps))
        for optimizer, result in (("SGD", sgd), ("AdamW", adamw)):
            found, figure = rows["training", optimizer + ", sets of weights within 1e-5 over 1 steps"]
            expect_equal(found, result, rows)
            expect(figure.startswith("%d, the furthest " % (10 - jumps)), rows)


RUNGS = ("tutorial network", "cnn_plain", "linear, batch 2048", "resnet18, bf16")
CLIMBS = r"""
for word; do
  case $before in --output) out=$word ;; esac
  before=$word
done
[ "$1" = train ] || exit 0
echo "${out##*/} $*" >>"$CLIMBED"
case ${out##*/} in
  cnn_plain-launched) echo "error: cuDNN: no engine"; exit 2 ;;
  linear-replayed) weights=other ;;
  resnet18-replayed) weights=same more=',"not_recorded":"no graph"' ;;
  *) weights=same ;;
esac
mkdir -p "$out"
for loss in 2.5 2.25; do echo "{\"event\":\"step\",\"loss\":$loss,\"lr\":1}"; done >"$out/metrics.jsonl"
echo "{\"event\":\"end\"$more,\"weights_sha256\":\"$weights\"}" >>"$out/metrics.jsonl"
"""


@check
def the_ladder_reports_its_last_rung():
    climbed = path("climbed")
    done, rows, _ = gpu_check("ladder", "ladder", PROGRAM=script("climbs", CLIMBS), GPU_CHECK_DATA=scratch(),
                              CLIMBED=climbed)
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal([check for _, check in rows], [rung + how for rung in RUNGS for how in (", launched", ", replayed")])
    expect_equal([rows["ladder", rung + ", launched"] for rung in RUNGS],
                 [("pass", "loss 2.5 2.25"), ("FAIL", "cnn_plain-launched: error: cuDNN: no engine"),
                  ("pass", "loss 2.5 2.25"), ("pass", "loss 2.5 2.25")], text)
    expect_equal([rows["ladder", rung + ", replayed"][0] for rung in RUNGS], ["pass", "FAIL", "FAIL", "FAIL"], text)
    expect_equal(rows["ladder", RUNGS[3] + ", replayed"][1], "resnet18-replayed: not_recorded: no graph", text)
    with open(climbed) as file:
        for line in file:
            expect_equal(" --no-record" in line, "-launched " in line, line)
            expect_equal("bf16.enabled=true" in line, line.startswith("resnet18-"), line)


FED = ("tutorial network, several steps by one launch", "evaluations amid 64 steps that are sent at once",
       "their losses, launched or replayed", "resnet18, packed pictures sent beside the steps")
# Its runs differ by their folders' names alone; those in WRONG have other weights, LOST another loss.
FEEDS = r"""
for word; do
  case $before in --output | --out) out=$word ;; esac
  case $word in data.path=*) data=${word#data.path=} ;; esac
  before=$word
done
case "$1 $2" in
  "data convert") [ "$LOST" != pack ] || { echo "error: a full disk"; exit 4; }
    mkdir -p "${out%/*}"; : >"$out"; exit 0 ;;
  train*) ;;
  *) exit 0 ;;
esac
name=${out##*/} weights=same loss=2
case "$name $data $*" in
  packed-*/packed" "*) ;;
  packed-*) exit 4 ;;
esac
[ "$name" != "$LOST" ] || loss=2.25
case " $WRONG " in *" $name "*) weights=other ;; esac
mkdir -p "$out"
for loss in 2.5 "$loss"; do echo "{\"event\":\"eval\",\"loss\":$loss,\"accuracy\":1}"; done >"$out/metrics.jsonl"
echo "{\"event\":\"end\",\"weights_sha256\":\"$weights\"}" >>"$out/metrics.jsonl"
"""


@check
def other_bits_of_steps_that_get_their_images_in_other_ways_are_found():
    for i, (wrong, lost, failing) in enumerate((
            ("", "", []), ("replayed packed-replayed", "amid-replayed", [0, 2, 3]),
            ("amid-replayed packed-launched", "", [1, 3]), ("amid-launched", "pack", [1, 3]))):
        done, rows, _ = gpu_check("feeding-%d" % i, "feeding", PROGRAM=script("feeds", FEEDS),
                                  GPU_CHECK_DATA=scratch(), WRONG=wrong, LOST=lost)
        text = "\n".join(map(str, rows.items())) + done.stderr
        expect_equal({check: result for (_, check), (result, _) in rows.items()},
                     {check: "FAIL" if n in failing else "pass" for n, check in enumerate(FED)}, wrong, lost, text)
        expect_equal(done.returncode, BUG if failing else DONE, text)
    expect_equal(rows["feeding", FED[3]], ("FAIL", "error: a full disk"), text)


@check
def feeding_on_the_host():
    """With the whole program; both networks are one linear layer."""
    need_on_host()
    done, rows, _ = gpu_check(
        "feeding-on-host", "feeding:300", PROGRAM=ON_HOST, ON_HOST_DEVICES="1", GPU_CHECK_DATA=few(train=80, test=8),
        GPU_CHECK_SET="model.name=linear train.max_steps=16 train.eval_interval=11 train.eval_batch_size=16",
        GPU_CHECK_LIMIT="100")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal({check: result for (_, check), (result, _) in rows.items()}, {check: "pass" for check in FED}, text)
    expect_equal(done.returncode, DONE, text)


@check
def the_ladder_on_the_host():
    """With the whole program; every rung is one linear layer."""
    need_on_host()
    done, rows, _ = gpu_check(
        "ladder-on-host", "ladder:300", PROGRAM=ON_HOST, ON_HOST_DEVICES="1", GPU_CHECK_DATA=few(train=80, test=8),
        GPU_CHECK_SET="model.name=linear data.on_corrupt=skip train.eval_batch_size=8 train_batch_size=8 "
                      "train_micro_batch_size_per_gpu=8 data.augment=[] train.max_steps=3", GPU_CHECK_LIMIT="100")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal([result for result, _ in rows.values()], ["pass"] * 8, text)


main()
