"""A run's files, read by independent readers: weights, metrics, the tutorial's lines, the configuration."""
import csv
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SETTINGS = {"data.dataset": "synthetic", "train.max_steps": 60, "steps_per_print": 1, "train.eval_interval": 25,
            "train.log_interval": 64, "train.save_interval": 25, "checkpoint.keep_last": 9, "gradient_clipping": 1}
SHAPES = {"conv1.weight": [6, 3, 5, 5], "conv1.bias": [6], "conv2.weight": [16, 6, 5, 5], "conv2.bias": [16],
          "fc1.weight": [120, 400], "fc1.bias": [120], "fc2.weight": [84, 120], "fc2.bias": [84],
          "fc3.weight": [10, 84], "fc3.bias": [10]}


def settings(**changed):
    return {**SETTINGS, "data.path": synthetic(), **dotted(changed)}


@functools.lru_cache(None)
def trained():
    """(folder, what it printed)."""
    return path("run"), train(path("run"), settings(), ranks=Ranks(2))


def in_run(*names):
    return os.path.join(trained()[0], *names)


def floats(data):
    return struct.unpack("<%df" % (len(data) // 4), data)


@check
def weights_files_are_safetensors():
    step_60 = in_run("ckpt", "step-00000060", "weights.safetensors")
    for file in [in_run("last.bin"), in_run("best.bin"), step_60, in_run("ckpt", "step-00000000", "weights.safetensors")]:
        tensors, metadata = safetensors(file)
        expect_equal({name: shape for name, (_, shape, _) in tensors.items()}, SHAPES, file)
        for name, (dtype, shape, data) in tensors.items():
            expect_equal(dtype, "F32", name)
            size = 4
            for n in shape:
                size *= n
            expect_equal(len(data), size, name)
            values = floats(data)
            expect(all(abs(v) < 10 for v in values) and len(set(values)) > 1, "strange values in " + name)
        expect_equal(sum(len(data) // 4 for _, _, data in tensors.values()), 62006)
        expect(all(isinstance(v, str) for v in metadata.values()), "metadata must be strings")
    expect_equal(safetensors(in_run("last.bin"))[0], safetensors(step_60)[0], "last.bin and the last checkpoint")


@check
def the_metadata_says_what_eval_needs():
    for name in ("last.bin", "best.bin"):
        metadata = {k.replace("cifar_train.", ""): v for k, v in safetensors(in_run(name))[1].items()}
        expect_equal(metadata["model"].count("cnn"), 1, metadata)
        expect_equal(metadata["dataset"], "synthetic-10")
        expect_equal(metadata["step"], "60")
        expect(metadata["data_path"] == synthetic(), metadata)
        expect("striped-disc" in str(metadata) and "0.5" in str(metadata), metadata)
    expect_equal(metadata["selected_by"], "last")


@check
def each_tensor_has_its_checksum():
    tensors, metadata = safetensors(in_run("best.bin"))
    for name in ("conv1.weight", "conv1.bias", "fc3.bias"):  # slow in Python
        found = [v for k, v in metadata.items() if name in k]
        expect(found, "no checksum of %s in %r" % (name, metadata))
        expect("%08x" % crc32c(tensors[name][2]) in found[0], name, found)


@check
def the_hash_is_the_definitions():
    sha = result(trained()[0])[0]
    expect_equal(weights_sha256(in_run("last.bin")), sha)
    expect("weights_sha256: " + sha in run("ckpt", "inspect", in_run("last.bin")).stdout)
    expect(sha in trained()[1].stderr, "the run does not print its hash")


@check
def eval_repeats_the_run():
    recorded = records(trained()[0], "eval")[-1]
    for words in [[], ["--batch-size", "1000"], ["--batch-size", "7"]]:
        done = succeeds("eval", "--ckpt", in_run("best.bin"), "--json", *words)
        found = json.loads(done.stdout)
        for key in ("split", "step", "loss", "accuracy", "top5", "per_class", "images"):
            expect_equal(found[key], recorded[key], key, words)
    text = run("eval", "--ckpt", in_run("best.bin")).stdout
    for line in text.splitlines():
        if line.startswith("Accuracy of "):
            expect(line in trained()[1].stdout, line)
    expect_equal(text.count("Accuracy of "), 11)
    expect_equal(text.count("Top-5"), 1)
    few_images = json.loads(run("eval", "--ckpt", in_run("best.bin"), "--json", "--max-images", "333").stdout)
    expect_equal(few_images["images"], 333)
    on_train = json.loads(run("eval", "--ckpt", in_run("best.bin"), "--json", "--split", "train").stdout)
    expect_equal((on_train["images"], on_train["split"]), (50000, "train"))


@check
def the_tutorials_lines():
    lines = trained()[1].stdout.splitlines()
    steps = [r for r in records(trained()[0], "step")]
    # 4 micro-batches of 4 images a step: a line at the first step that reaches each 64, with the mean since the last.
    expected = ["[1, %5d] loss: %.3f" % (n, sum(r["loss"] for r in steps[n // 4 - 16:n // 4]) / 16) for n in (64, 128, 192)]
    expect_equal([line for line in lines if line.startswith("[")], expected)
    expect_equal(lines[3], "Finished Training")
    accuracy = records(trained()[0], "eval")[-1]
    expect(re.fullmatch(r"GroundTruth: ( +\S+){4}", lines[4]), lines[4])
    expect(re.fullmatch(r"Predicted: ( +\S+){4}", lines[5]), lines[5])
    expect_equal(lines[6], "Accuracy of the network on the 10000 test images: %d %%" % (100 * accuracy["accuracy"]))
    expect_equal(len(lines), 17, *lines)
    for line, share in zip(lines[7:], accuracy["per_class"]):
        expect(re.fullmatch(r"Accuracy of +\S+ : [ \d]\d %|Accuracy of +\S+ : 100 %", line), line)
        expect_equal(int(line.split()[-2]), int(100 * share + 1e-9), line)
    first = [word for word in lines[4].split()[1:]]
    expect("CIFAR" not in trained()[1].stdout, "the synthetic set is called CIFAR")
    with open(os.path.join(synthetic(), "synthetic-10-batches-bin", "test_batch.bin"), "rb") as file:
        labels = [file.read(RECORD)[0] for _ in range(4)]
    with open(os.path.join(synthetic(), "synthetic-10-batches-bin", "batches.meta.txt")) as file:
        names = file.read().split()
    expect_equal(first, [names[label] for label in labels])


@check
def cifar_has_the_tutorials_class_names():
    done = train(path("cifar"), {**FEW, "data.path": few(), "train.max_steps": 1})
    for name in ("plane", "  car", " bird", "  cat", " deer", "  dog", " frog", "horse", " ship", "truck"):
        expect(re.search(r"(?m)^Accuracy of %s : [ \d]*\d %%$" % name, done.stdout), name, done.stdout)
    expect("Accuracy of the network on the 200 test images: " in done.stdout, done.stdout)


@check
def chatter_goes_to_stderr_and_quiet_ends_it():
    expect("cifar-train" in trained()[1].stderr and "weights_sha256" not in trained()[1].stdout)
    expect("\x1b" not in trained()[1].stderr + trained()[1].stdout, "colour without a terminal")
    expect("\r" not in trained()[1].stderr + trained()[1].stdout, "a progress line without a terminal")
    quiet = train(path("quiet"), settings(train__max_steps=2), "-q")
    expect_equal(quiet.stderr, "")
    expect("Finished Training" in quiet.stdout)


@check
def metrics_jsonl():
    found = records(trained()[0])
    expect_equal(found[0]["event"], "start")
    expect_equal(found[-1]["event"], "end")
    for r in found:
        numbers = {"step": ["step", "epoch", "loss", "lr", "grad_norm", "loss_scale", "skipped", "samples",
                            "samples_per_sec", "wait_fraction"],
                   "eval": ["step", "loss", "accuracy", "images", "top5"], "checkpoint": ["step"], "start": ["seed"],
                   "epoch": ["step", "epoch", "loss"], "end": ["step", "seconds", "samples_per_sec"]}[r["event"]]
        for key in numbers:
            expect(isinstance(r[key], (int, float)) and not isinstance(r[key], bool), key, r)
    steps = [r for r in found if r["event"] == "step"]
    expect_equal([r["step"] for r in steps], list(range(1, 61)))
    expect_equal([r["samples"] for r in steps], list(range(16, 961, 16)))
    expect_equal({r["epoch"] for r in steps}, {1})
    expect_equal({(r["loss_scale"], r["skipped"]) for r in steps}, {(1, 0)})
    expect(all(0 <= r["wait_fraction"] <= 1 and r["samples_per_sec"] > 0 for r in steps), steps)
    evals = [r for r in found if r["event"] == "eval"]
    expect_equal([(r["step"], r["split"], r["images"], len(r["per_class"])) for r in evals],
                 [(step, "test", 10000, 10) for step in (25, 50, 60)])
    expect_equal([r["step"] for r in found if r["event"] == "checkpoint"], [0, 25, 50, 60])
    end = found[-1]
    expect(re.fullmatch("[0-9a-f]{64}", end["weights_sha256"]) and end["step"] == 60, end)
    peak = end["peak_bytes"]
    expect(all(peak[key] > 0 for key in ("total", "process", "weights", "gradients", "optimizer", "activations")), end)
    expect(peak["total"] < peak["process"] and end["traffic"]["elements"] > 0, end)
    # The warm-up, as DeepSpeed's engine runs it: its scheduler is one step behind, and starts at the least rate.
    for r in steps:
        expect(abs(r["lr"] - 0.001 * math.log(max(1, r["step"] - 1)) / math.log(1000)) < 1e-12, r)


@check
def metrics_csv_has_the_same_scalars():
    with open(in_run("metrics.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = [r for r in records(trained()[0]) if r["event"] in ("step", "eval")]
    expect_equal(len(rows), len(wanted))
    for row, r in zip(rows, wanted):
        scalars = {k: v for k, v in r.items() if not isinstance(v, list)}
        expect(scalars.keys() <= row.keys(), "without a column", scalars.keys() - row.keys())
        for key, value in row.items():
            if value == "":
                expect(key not in scalars, key, row)
            elif key in ("event", "split"):
                expect_equal(value, scalars[key])
            else:
                expect_equal(float(value), float(scalars[key]), key)


@check
def metrics_csv_of_an_older_program_gets_the_columns_it_lacks():
    older, file = path("older"), path("older", "metrics.csv")
    shutil.copytree(trained()[0], older)
    with open(file) as rows:
        whole = rows.read()
    with open(file, "w") as rows:
        rows.write("event,step,loss\nstep,1,2.5\n")
    train(older, settings(train__max_steps=61))
    with open(file) as rows:
        found = rows.read()
    # The evaluation of step 60 was made only because the run ended, and is undone.
    expect(found.startswith(whole[:whole.index("\neval,60,") + 1]) and "\nstep,61," in found, found)
    # Nothing to make the rows of anew: they stay as they are, and none of another form follow them.
    shutil.copytree(trained()[0], path("csv-alone"))
    os.remove(path("csv-alone", "metrics.jsonl"))
    with open(path("csv-alone", "metrics.csv"), "w") as rows:
        rows.write("event,step,loss\nstep,1,2.5\n")
    done = train(path("csv-alone"), settings(train__max_steps=61), expecting=USAGE)
    fails(USAGE, done, "metrics.csv")
    with open(path("csv-alone", "metrics.csv")) as rows:
        expect_equal(rows.read(), "event,step,loss\nstep,1,2.5\n")


@check
def config_yaml_repeats_the_run():
    expect_equal(run("config", "check", in_run("config.yaml")).returncode, DONE)
    train(path("again"), {}, config=in_run("config.yaml"))
    expect_same_result(path("again"), result(trained()[0]))


@check
def export_and_init():
    out = path("exported.safetensors")
    done = succeeds("export", "--ckpt", in_run("best.bin"), "--out", out)
    expect_equal(safetensors(out)[0], safetensors(in_run("best.bin"))[0])
    # From the initial weights by --init: the same run.
    done = succeeds("export", "--ckpt", in_run("ckpt", "step-00000000", "weights.safetensors"), "--out", path("initial.safetensors"))
    train(path("from-initial"), settings(seed=43, data__shuffle=False, train__max_steps=1))
    train(path("from-init"), settings(seed=43, data__shuffle=False, train__max_steps=1), "--init", path("initial.safetensors"))
    train(path("plain"), settings(data__shuffle=False, train__max_steps=1))
    expect_equal(records(path("from-init"), "step")[0]["loss"], records(path("plain"), "step")[0]["loss"])
    expect(records(path("from-initial"), "step")[0]["loss"] != records(path("plain"), "step")[0]["loss"])
    expect_equal(weights_sha256(path("from-init", "ckpt", "step-00000000", "weights.safetensors")),
                 weights_sha256(path("initial.safetensors")))
    # A file that some other program wrote: names and shapes are all that counts, in any order, without metadata.
    tensors, _ = safetensors(path("initial.safetensors"))
    header, body = {}, b""
    for name in reversed(sorted(tensors)):
        dtype, shape, data = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path("foreign.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)
    train(path("from-foreign"), settings(train__max_steps=1), "--init", path("foreign.safetensors"))
    expect_equal(records(path("from-foreign"), "step")[0]["loss"], records(trained()[0], "step")[0]["loss"])


@check
def best_bin_follows_the_metric():
    sets = {**FEW, "data.path": few(), "train.max_steps": 40, "train.epochs": 9, "train.eval_interval": 1,
            "train.best.split": "test", "train.best.metric": "loss", "optimizer.params.lr": 0.02,
            "scheduler.params.warmup_max_lr": 0.02}
    train(path("best"), sets)
    evals = records(path("best"), "eval")
    least = min(evals, key=lambda r: r["loss"])
    found = json.loads(run("ckpt", "inspect", path("best", "best.bin")).returncode == DONE and
                       json.dumps(safetensors(path("best", "best.bin"))[1]))
    expect_equal(int(found["cifar_train.step"]), least["step"])
    expect(least["step"] < 40, "the last evaluation is the best: this shows nothing")
    expect_equal(int(safetensors(path("best", "last.bin"))[1]["cifar_train.step"]), 40)


@check
def validation_images_are_held_out():
    train(path("val"), settings(data__validation=1000, train__max_steps=2, train__best__split="val"))
    splits = [(r["split"], r["images"]) for r in records(path("val"), "eval")]
    expect_equal(splits, [("val", 1000), ("test", 10000)])


@check
def dry_run_and_print_config_write_nothing():
    for words in (["--dry-run"], ["--print-config"], ["--dump-plan"]):
        done = finish(start(Ranks(2).words(*train_words(path("dry"), settings(), *words))))
        expect_equal(done.returncode, DONE, done.stderr)
        expect(done.stdout.strip(), words)
        timed = re.search(r"^time: (\d+) steps of ([\d.e+-]+) ms, \d+", done.stdout, re.MULTILINE)
        expect_equal(bool(timed), words == ["--dry-run"], done.stdout)
        expect(not timed or int(timed[1]) == 60 and 0 < float(timed[2]) < 1e4, done.stdout)
    expect_not_in("has done", done.stdout)
    many = 2 * os.cpu_count()
    crowd = train(path("dry"), settings(train_batch_size=4 * many), "--dry-run", ranks=Ranks(many))
    expect("\ntime: 60 steps, not measured: this host has fewer cores" in crowd.stdout, crowd.stdout)
    if has_mpi():
        crowd = train(path("dry"), settings(train_batch_size=4 * many), "--dry-run", ranks=Ranks(many, mpi=True))
        expect("\ntime: 60 steps, not measured: this host has fewer cores" in crowd.stdout, crowd.stdout)
    # Evaluation of large batches needs more than training of small ones, and both are told.
    for batch, larger in [(4, 2), (1000, 3)]:
        words = [*train_words(path("dry"), settings(train__eval_batch_size=batch, train_micro_batch_size_per_gpu=32,
                                                    train_batch_size=32)), "--dry-run"]
        told = re.search(r"(\d+) activations and workspace \((\d+) in training, (\d+) in evaluation\)", run(*words).stdout)
        expect(told and told[1] == told[larger] and int(told[2]) != int(told[3]), told and told[0])
    expect(not os.path.exists(path("dry")), "a dry run wrote something")
    # Of a run that was begun, what is left of it counts.
    before = snapshot(trained()[0])
    text = train(trained()[0], settings(train__max_steps=100), "--dry-run").stdout
    expect_match(text, r"(?m)^time: 40 steps of .*; the run in %s has done the other 60$" % trained()[0])
    expect_match(train(trained()[0], settings(), "--dry-run", "--reset").stdout, "(?m)^time: 60 steps of [^;]*$")
    expect_equal(snapshot(trained()[0]), before)
    for words in (["--dry-run"], []):  # what the run refuses
        fails(CHECKPOINT, run("train", *train_words(trained()[0], settings(seed=44), *words)), "seed: 42 saved, 44 now")
        fails(USAGE, run("train", *train_words(trained()[0], settings(), "--resume", "never", *words)), "--reset")


main()
