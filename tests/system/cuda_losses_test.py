"""--device cuda computes the CPU's results: losses and norms of gradients in f32, bf16 and fp16, and skipped steps."""
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cuda import *

SGD = {"optimizer.type": "SGD"}
ADAMW = {"optimizer": "{type: AdamW, params: {lr: 0.001}}"}


def can_bf16(device):
    done = run("train", *train_words(path("probe"), plain(bf16__enabled=True), "--dry-run", *device, config=TUTORIAL))
    return done.returncode == DONE


def weights(seed, model):
    """A file with the initial weights."""
    output = path("weights-%s-%d" % (model, seed))
    if not os.path.exists(output):
        train(output, plain(seed=seed, model__name=model, train__max_steps=0), *CPU, config=TUTORIAL)
    return os.path.join(output, "last.bin")


def on_both(name, sets, *words):
    """The step records of the same training on the CPU and with CUDA."""
    for kind in (CPU, CUDA):
        words_of_kind = train_words(path(name + kind[1]), sets, *words, *kind, config=TUTORIAL)
        done = finish(start(Ranks(1).words(*words_of_kind)), timeout=600)
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    return [records(path(name + kind[1]), "step") for kind in (CPU, CUDA)]


def distances(name, sets, *words):
    """The largest distances of the losses and of the gradients' norms."""
    cpu, cuda = on_both(name, sets, *words)
    expect_equal(len(cuda), sets["train.max_steps"])
    for a, b in zip(cuda, cpu):
        expect_equal([a[key] for key in ("step", "epoch", "lr", "skipped", "samples")],
                     [b[key] for key in ("step", "epoch", "lr", "skipped", "samples")])
    return ([distance(a["loss"], b["loss"]) for a, b in zip(cuda, cpu)],
            max(distance(a["grad_norm"], b["grad_norm"]) for a, b in zip(cuda, cpu)))


def close_losses(model, optimizer, seeds, steps):
    """Losses diverge when rounding changes the branch of a ReLU or a maximum. Adam amplifies that, because it scales
    small gradients up: two of ten sets of weights may diverge within 50 steps."""
    furthest, jumped = [], []
    for seed in seeds:
        found, norms = distances("close", plain(model__name=model, train__max_steps=steps, **optimizer),
                                 "--init", weights(seed, model), "--reset")
        what = "%s, %s, weights %d, %d steps: losses within %.1e, gradients' norms within %.1e" % (
            model, optimizer, seed, steps, max(found), norms)
        if max(found) > 1e-5 or norms > 1e-3:
            jumped.append(seed)
        expect(max(found[:6]) <= 1e-5 and max(found) <= 1e-3 and len(jumped) <= len(seeds) // 5, what, jumped, found)
        furthest.append(max(found))
    expect(statistics.median(furthest) <= 1e-4, furthest)
    print("      %s, %s: %d sets of weights, %d steps, losses within %.1e, sets that jumped: %s" % (
        model, optimizer, len(furthest), steps, max(furthest), jumped))


SEEDS = range(1, 11) if FULL or REAL else (1,)
# Longer runs on so few images end at losses near 0, whose relative distances say nothing.
STEPS = 50 if FULL or REAL else 4


@check
def losses_of_the_tutorials_network_with_sgd():
    close_losses("cnn", SGD, SEEDS, STEPS)


@check
def losses_of_the_tutorials_network_with_adamw():
    close_losses("cnn", ADAMW, SEEDS, STEPS)


@check
def losses_of_the_network_a_layer_an_operation():
    for optimizer in (SGD, ADAMW):
        close_losses("cnn_plain", optimizer, SEEDS if FULL or REAL else (3,), STEPS)


@check
def losses_of_resnet18():
    """Without a GPU one step of one image: its loss is the forward pass, the gradient's norm the backward pass."""
    if not FULL and not REAL:
        raise Skip("half a minute on the stand-in: with CIFAR_TRAIN_FULL=1")
    steps = 4 if REAL else 1
    found, norms = distances("resnet", plain(
        model__name="resnet18", train__max_steps=steps, train_batch_size=1 if steps == 1 else 16,
        train_micro_batch_size_per_gpu=1 if steps == 1 else 16, data__path=few(320, 4)))
    print("      losses within %.1e, gradients' norms within %.1e" % (max(found), norms))
    expect(found[0] <= 1e-5 and max(found) <= 1e-3, found)
    expect(norms <= 1e-2, norms)


@check
def losses_in_bf16():
    if not can_bf16(CPU):
        raise Skip("the CPU does not compute in bf16")
    for model in ("cnn", "cnn_plain") if FULL else ("cnn",):
        sets = plain(model__name=model, train__max_steps=6)
        found, norms = distances("bf16-", {**sets, "bf16.enabled": True}, "--reset")
        print("      %s: losses within %.1e, gradients' norms within %.1e" % (model, max(found), norms))
        # bf16 has eight bits: what is nearly a tie may be rounded otherwise.
        expect(max(found) <= 1e-3 and norms <= 2e-2, found, norms)
        as_bf16 = [r["loss"] for r in records(path("bf16-cuda"), "step")]
        train(path("f32-cuda"), sets, "--reset", *CUDA, config=TUTORIAL)
        expect([r["loss"] for r in records(path("f32-cuda"), "step")] != as_bf16, "bf16 gives the losses of f32")


@check
def losses_in_fp16():
    """The first scale is too large: steps are skipped, the weights stay, and then training proceeds."""
    sets = plain(model__name="cnn", train__max_steps=8, fp16__enabled=True, fp16__initial_scale_power=24,
                 fp16__hysteresis=1, train__max_bad_steps=100)
    train(path("f32"), plain(model__name="cnn", train__max_steps=1), *CPU, config=TUTORIAL)
    done = train(path("fp16"), sets, *CUDA, config=TUTORIAL)
    steps = records(path("fp16"), "step")
    for line in ("fp16: dynamic loss scale from 16777216, halved at 1 overflow down to 1, doubled after 1000 steps without",
                 "step 1 was skipped on all ranks: its loss or gradient is not finite. Attempted loss scale: 16777216, "
                 "reducing to 8388608"):
        expect(line in done.stderr, line, done.stderr)
    end = records(path("fp16"), "end")[-1]["skipped"]
    expect(re.search(r"%d steps? of 8 \(%.1f %%\) (was|were) skipped" % (end, 12.5 * end), done.stderr), done.stderr)
    first = distance(steps[0]["loss"], records(path("f32"), "step")[0]["loss"])
    skipped = [r["skipped"] for r in steps]
    expect(first <= 1e-3, "the loss of the first step is %.1e from that in f32" % first)
    expect(skipped[0] > 0 and skipped[-1] == skipped[-2], "the steps skipped", skipped)
    scales = [r["loss_scale"] for r in steps]
    expect(scales[-1] < scales[0] <= 2 ** 24 and all(b <= a for a, b in zip(scales, scales[1:])), scales)
    train(path("fp16-twin"), sets, "--no-record", *CUDA, config=TUTORIAL)
    expect_same_result(path("fp16-twin"), result(path("fp16")), "--no-record")
    # A skipped update leaves the weights that travel to the device as they were.
    train(path("fp16-host"), {**sets, "zero_optimization.offload_optimizer.device": "cpu"}, *CUDA, config=TUTORIAL)
    expect_same_result(path("fp16-host"), result(path("fp16")), "offloaded")


@check
def the_loss_scale_of_the_reference():
    """`compat`: DeepSpeed's loss scale of stage 0, its start at 2^32 at other stages, and its messages."""
    sets = plain(model__name="cnn", train__max_steps=6, fp16__enabled=True, train__max_bad_steps=100)
    done = train(path("scaler-b"), {**sets, "fp16.initial_scale_power": 24, "compat": "[scaler_b, console]"}, *CUDA,
                 config=TUTORIAL)
    expect("Overflow detected. Skipping step. Attempted loss scale: 16777216, reducing to 8388608" in done.stderr, done.stderr)
    expect("Grad overflow on iteration 0" in done.stderr and "was skipped on all ranks" not in done.stderr, done.stderr)
    done = train(path("scale-32"), {**sets, "zero_optimization.stage": 1, "compat": "seed"}, *CUDA, config=TUTORIAL)
    expect("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to 2147483648" in
           done.stderr, done.stderr)
    expect_equal([r["loss_scale"] for r in records(path("scale-32"), "step")][:3], [2 ** 31, 2 ** 30, 2 ** 29])
    expect_equal(records(path("scale-32"), "end")[-1]["skipped"], 6)


@check
def losses_of_a_transformer():
    """Dropout has the same masks on every device and in every type."""
    narrow = plain(model="{name: vit_tiny, dim: 24, depth: 2, heads: 2, dim_head: 8, mlp_dim: 20}", train__max_steps=4,
                   data__path=few(64, 4))
    found, norms = distances("transformer-", narrow)
    expect(max(found) <= 1e-4 and norms <= 1e-3, found, norms)
    steps = records(path("transformer-cuda"), "step")
    if can_bf16(CPU):
        found, norms = distances("transformer-bf16-", {**narrow, "bf16.enabled": True})
        expect(max(found) <= 1e-2 and norms <= 5e-2, found, norms)
    train(path("transformer-fp16"), {**narrow, "fp16.enabled": True, "fp16.initial_scale_power": 8}, *CUDA,
          config=TUTORIAL)
    halves = records(path("transformer-fp16"), "step")
    expect_equal(halves[-1]["skipped"], 0)
    furthest = max(distance(a["loss"], b["loss"]) for a, b in zip(halves, steps))
    expect(0 < furthest <= 1e-2, furthest)


@check
def weights_that_fp16_has_destroyed():
    """Steps that overflow are skipped, and the loss scale falls for a long time before the run diverges: there is a
    warning."""
    sets = plain(model__name="cnn", fp16__enabled=True, train__max_steps=4, scheduler__params__warmup_max_lr=1e38,
                 scheduler__params__warmup_num_steps=1)
    done = train(path("destroyed"), sets, *CUDA, expecting=DIVERGED)
    expect("warning: the weights of step 4 give no finite loss on the test split" in done.stderr, done.stderr)


@check
def a_loss_that_is_not_finite():
    """As on the CPU: the same steps are skipped, the messages are the same, and the last good checkpoint stays."""
    said, steps = {}, {}
    wild = plain(model__name="cnn", train__max_steps=20, optimizer__params__lr=1e20)
    cases = [(CPU, Ranks(1)), (CUDA, Ranks(1)), (CUDA, Ranks(2))]
    for number, (device, ranks) in enumerate(cases):
        output = path("wild-%d" % number)
        sets = {**wild, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "communication.share_device": True}
        words = ranks.words(*train_words(output, sets, *device, config=TUTORIAL))
        done = finish(start(words, env=ONE_GPU))
        said[number] = fails(DIVERGED, done, "step ", "lr", "--reset").replace(output, "OUT")
        steps[number] = [(r["step"], r["skipped"], r["loss"] is None) for r in records(output, "step")]
        expect("step %d" % steps[number][-1][0] in said[number], said, steps)
        expect_equal([skipped for _, skipped, _ in steps[number][-3:]], [1, 2, 3])
        expect_equal(run("ckpt", "verify", output).returncode, DONE)
        # Again: from the last good checkpoint into the same step.
        expect_equal(fails(DIVERGED, finish(start(words, env=ONE_GPU))).replace(output, "OUT"), said[number])
    for number in range(1, len(cases)):
        expect_equal((steps[number], said[number]), (steps[0], said[0]), cases[number])


main()
