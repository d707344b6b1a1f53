"""config, data, ckpt, eval, doctor and selftest through the program: good and bad input, exit codes, one line of error. Where
the build has the program whose GPUs are the host's stand-in, doctor and selftest look at those too."""
import os
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png


def write(name, text):
    with open(path(name), "w") as file:
        file.write(text)
    return path(name)


def copy(source, name):
    (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, path(name))
    return path(name)


def synthetic_set():
    return os.path.join(synthetic(), "synthetic-10-batches-bin")


def train_linear(folder, ranks):
    train(folder, {"model.name": "linear", "train.max_steps": 3, "data.dataset": "synthetic", "data.path": synthetic()},
          ranks=Ranks(ranks))
    return folder


@functools.lru_cache(None)
def trained():
    """A run of three steps: checkpoints of steps 0 and 3."""
    return train_linear(path("run"), 1)


def checkpoint(step=3):
    return os.path.join(trained(), "ckpt", "step-%08d" % step)


# ---- all families

@check
def misspelt_commands_name_the_right_one():
    for word, meant in [("trian", "train"), ("tain", "train"), ("evaluate", "eval"), ("evl", "eval"), ("exprot", "export"),
                        ("confg", "config"), ("conf", "config"), ("dta", "data"), ("ckpts", "ckpt"), ("bnech", "bench"),
                        ("sweeep", "sweep"), ("lanch", "launch"), ("job-script", "jobscript"), ("estimat", "estimate"),
                        ("docter", "doctor"), ("selftst", "selftest")]:
        bad(USAGE, "no verb is called '%s'; did you mean '%s'?" % (word, meant), word)
    bad(USAGE, "'resnet18.yaml' is not a verb; to train with it: cifar-train --config resnet18.yaml", "resnet18.yaml")
    bad(USAGE, "there are train, eval", "xyzzy")
    for verb, word, meant in [("train", "--confg", "--config"), ("train", "--ouput", "--output"),
                              ("eval", "--chkpt", "--ckpt"), ("bench", "--windws", "--windows"),
                              ("estimate", "--rank", "--ranks"), ("sweep", "--gird", "--grid")]:
        bad(USAGE, "did you mean %s?" % meant, verb, word + "=1")
    for word, meant in [("test", "eval"), ("val", "eval"), ("validate", "eval"), ("fit", "train"), ("infer", "predict"),
                        ("lr_find", "lr-find"), ("benchmark", "bench"), ("tune", "sweep"), ("plot", "report")]:
        bad(USAGE, "did you mean '%s'?" % meant, word)
    for verb, word, meant in [("train", "--learning-rate", "--lr"), ("train", "--learning_rate", "--lr"),
                              ("train", "--bs", "--batch-size"), ("train", "--num-epochs", "--epochs"),
                              ("train", "--num_epochs", "--epochs"), ("train", "--weights", "--pretrained"),
                              ("train", "--checkpoint", "--pretrained"), ("train", "--output-dir", "--output"),
                              ("train", "--seed", "--set seed=N"), ("train", "--gpu", "--device"),
                              ("eval", "--weights", "--ckpt"), ("predict", "--checkpoint", "--ckpt"),
                              ("predict", "--batch_size", "--batch-size"), ("predict", "--topk", "--top"),
                              ("sweep", "--num-epochs", "--epochs"), ("lr-find", "--bs", "--batch-size"),
                              ("bench", "--batch-size", "--set train_batch_size=N"), ("export", "--output", "--out")]:
        bad(USAGE, "did you mean %s?" % meant, verb, word + "=1")
    bad(USAGE, "--gird seed=1 --repeat 3 are not expected; did you mean --grid where you wrote --gird?", "sweep", "--gird",
        "seed=1", "--repeat", "3")
    bad(USAGE, "--csv a.csv is not expected", "data", "verify", "--csv", "a.csv")
    for family, word, meant in [("config", "shwo", "show"), ("data", "verfy", "verify"), ("ckpt", "lst", "ls")]:
        bad(USAGE, "'%s' is not a command of %s; did you mean '%s'?" % (word, family, meant), family, word)


@check
def the_help_of_every_verb_ends_with_two_examples_that_name_its_options():
    verbs = re.findall(r"(?m)^  (\S+)  ", good("--help"))
    expect("lr-find" in verbs and len(verbs) == 18, verbs)
    for verb in verbs:
        text = good("help", verb)
        options, examples = text.split("\nExamples:\n")
        examples = examples.splitlines()
        expect_equal(len(examples), 2, verb)
        for example in examples:
            words = example.split(" cifar-train ")[-1].split()
            expect(verb == "train" or words[0 if words[0] != "cifar-train" else 1] == verb, example)
            parts = re.findall(r"(?m)^  (\w+) ", options) if verb in ("config", "data", "ckpt") else []
            if parts:
                options_of = good(verb, words[words.index(verb) + 1], "--help")
            elif verb in ("launch", "jobscript"):
                options += good("train", "--help")
            for word in words:
                if word.startswith("--"):
                    expect_in(word, options_of if parts else options)


@check
def a_configuration_and_a_run_need_no_option():
    few_steps = ["--set", "data.path=" + synthetic(), "--set", "train.max_steps=1", "--output", path("plain words")]
    done = run("train", "linear.yaml", *few_steps)
    command = re.search("evaluate with: cifar-train (.*)", done.stderr).group(1)
    expect_equal(shlex.split(command), ["eval", "--ckpt", path("plain words", "best.bin")])
    whole = good("eval", "--ckpt", path("plain words"))
    expect_equal(good("eval", path("plain words")), whole)
    bad(USAGE, "'linear.yaml' and --config 'default.yaml' are both given", "train", "linear.yaml", "--config", "default.yaml")
    bad(USAGE, "eval is a verb, which comes first", "--output", path("nothing"), "eval")


@check
def lr_find_draws_and_names_a_rate():
    words = ["lr-find", "--config", "default.yaml", "--set", "data.path=" + synthetic()]
    text = good(*words)
    rate = float(re.search(r"try --lr (\S+)$", text).group(1))
    expect(1e-5 < rate < 0.1, text)
    expect(max(map(len, text.splitlines()[:-1])) <= 80 and "*" in text and "^" in text, text)
    two, one = (json.loads(good(*words, "--json", "--ranks", ranks)) for ranks in (2, 1))
    expect_equal(two, one)
    expect(abs(one["lr"] - rate) < 0.05 * rate and len(one["losses"]) == one["steps"], one)
    bad(DIVERGED, "the loss falls clearly at no rate", *words, "--from", 30, "--to", 100)
    bad(USAGE, "--to", "lr-find", "--from", 1, "--to", 0.1)
    for word in "nan", "0", "inf":
        bad(USAGE, "--to: give a number from", "lr-find", "--to", word)
    bad(USAGE, "lr-find looks for the rate", *words, "--lr", 0.1)
    weights = os.path.join(trained(), "last.bin")
    linear = [*words, "--model", "linear", "--steps", 20, "--batch-size", 8, "--json"]
    first, begun = (json.loads(good(*linear, *more))["losses"][0] for more in ([], ["--pretrained", weights]))
    expect(first != begun, first, "the weights were not loaded")
    bad(CHECKPOINT, "its tensors have the names of linear's, give --model linear", *words, "--pretrained", weights)
    bad(USAGE, "the name of published weights: resnet18, resnet34", *words, "--pretrained", "resnet20")


@check
def lr_is_the_largest_rate_of_optimizer_and_schedule():
    def rates(*words):
        printed = good("train", "--print-config", "--lr", "0.25", *words)
        return re.findall(r"\b(lr|warmup_max_lr|cycle_max_lr): ([0-9.e-]+)", printed)

    expect_equal(rates(), [("lr", "0.25"), ("warmup_max_lr", "0.25")])
    expect_equal(rates("--config", "tutorial.yaml"), [("lr", "0.25")])
    expect_equal(rates("--config", "vit_tiny.yaml"), [("lr", "0.25"), ("cycle_max_lr", "0.25")])
    bad(USAGE, "--lr is ambiguous: the schedule's rate follows scheduler.params.lr_range_test_min_lr", "train",
        "--print-config", "--lr", "0.25", "--set", "scheduler={type: LRRangeTest}")
    for key in ("optimizer.params.lr", "scheduler.params.warmup_max_lr"):
        expect_equal(rates("--set", key + "=0.25"), [("lr", "0.25"), ("warmup_max_lr", "0.25")])
        bad(USAGE, "--lr 0.25 and --set %s=0.02 give two values of %s" % (key, key), "train", "--print-config", "--lr",
            "0.25", "--set", key + "=0.02")
    bad(USAGE, "--lr", "train", "--print-config", "--lr", "fast")
    expect("train_batch_size: 64" in good("train", "--print-config", "--batch-size", "64"), "--batch-size")


@check
def verbs_that_foretell_a_run_take_its_words():
    words = ["--lr", "0.25", "--epochs", "3", "--batch-size", "64"]
    shown = good("config", "show", "default.yaml", *words)
    for text in ("lr: 0.25", "warmup_max_lr: 0.25", "epochs: 3", "train_batch_size: 64"):
        expect(text in shown, text, shown)
    words += ["--pretrained", os.path.join(trained(), "last.bin"), "--model", "linear"]
    expect_equal(json.loads(good("estimate", *words, "--json"))["batch"]["train"], 64)
    bad(USAGE, "--init-head needs --init FILE", "estimate", "--init-head", "fit")


@check
def an_error_follows_what_was_printed_before():
    words = ["train", "--dry-run", "--model", "cnn", "--init", os.path.join(trained(), "last.bin")]
    done = subprocess.run([PROGRAM, *words, "--data", synthetic()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect_equal(done.returncode, CHECKPOINT, done.stdout)
    lines = done.stdout.splitlines()
    expect("parameters" in done.stdout and lines[-1].startswith("error: "), done.stdout)


@check
def help_comes_before_or_after_the_verb():
    for words in (["help", "eval"], ["--help", "eval"], ["-h", "eval"]):
        expect_equal(good(*words), good("eval", "--help"))
    bad(USAGE, "did you mean 'eval'?", "help", "evla")
    expect_equal(good("help", "data", "fetch"), good("data", "fetch", "--help"))
    bad(USAGE, "is not a command of data", "help", "data", "nothing")
    for words in (["report", "extra"], ["data", "fetch", "extra"]):
        bad(USAGE, "'extra' is not expected; see cifar-train help " + words[0], "help", *words)


@check
def help_lists_what_works_and_nothing_else():
    for verb, members in [("config", ["show", "check", "schema", "import"]),
                          ("data", ["fetch", "synth", "verify", "info", "convert"]),
                          ("ckpt", ["ls", "inspect", "verify", "prune", "diff"])]:
        text = good(verb, "--help")
        for member in members:
            expect_in("  %s " % member, text)
            helped = good(verb, member, "--help")
            expect_in("--help", helped)
            expect_match(helped, r"\nExamples:(\n  cifar-train %s %s.*){2}$" % (verb, member))
            expect(all(len(line) <= 80 for line in helped.splitlines() if " " in line.strip()), helped)
        bad(USAGE, members[0], verb)
        bad(USAGE, "'nonsense'", verb, "nonsense")
        bad(USAGE, "--nonsense", verb, members[0], "x", "--nonsense")
    expect_in("--json", good("doctor", "--help"))


@check
def the_man_page_has_what_help_has():
    page = good("__man", "2026-01-31")
    text = page.replace("\\-", "-").replace("\\e", "\\")
    for verb in re.findall(r"(?m)^  (\S+)  ", good("--help")):
        members = re.findall(r"(?m)^  (\w+) ", good(verb, "--help")) if verb in ("config", "data", "ckpt") else []
        for words in [[verb, member] for member in members] or [[verb]]:
            expect_in("\n.SS cifar-train %s\n" % " ".join(words), text)
            for option in re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", good(*words, "--help")):
                expect("\\fB%s\\fR" % option in text or option == "--help", option)
    for variable in ("CIFAR_TRAIN_MIRROR", "XDG_CACHE_HOME", "https_proxy", "no_proxy", "CURL_CA_BUNDLE"):
        expect_in("\n.B %s\n" % variable, text)
    for words in (["mandoc", "-T", "lint"], ["groff", "-man", "-ww", "-T", "utf8"]):
        if shutil.which(words[0]):
            done = subprocess.run(words, input=page, capture_output=True, text=True)
            expect_equal((done.returncode, done.stderr), (0, ""), done.stdout if words[0] == "mandoc" else "")


# ---- config

@check
def config_show_names_the_origin_of_each_value_and_loads_again():
    text = good("config", "show", os.path.join(CONFIGS, "default.yaml"), "--set", "train.epochs=7", "--ranks", 2)
    lines = {line.split(":")[0].strip(): line for line in text.splitlines()}
    expect_match(lines["epochs"], r"epochs: 7 +# --set train\.epochs=7")
    expect_match(lines["seed"], r"seed: 42 +# .*default\.yaml:4:7")
    expect_match(lines["max_bad_steps"], r"max_bad_steps: 3 +# default$")
    expect_in("gradient_accumulation_steps: 2  (follows on 2 ranks)", text)
    again = good("config", "show", write("again.yaml", text), "--ranks", 2)
    values = [line.split(" #")[0].rstrip() for line in text.splitlines()]
    expect_equal([line.split(" #")[0].rstrip() for line in again.splitlines()], values)


@check
def config_show_fits_80_columns():
    names = [os.path.join(CONFIGS, name) for name in ("cifar_2cores.yaml", "vit_tiny.yaml", "resnet18.yaml")]
    long = "runs/" + 6 * "a long name with blanks " + "and  more"
    for name in names:
        text = good("config", "show", name, "--set", "output=" + long, "--ranks", 1)
        expect(max(map(len, text.splitlines())) <= 80, text)
        again = write("again.yaml", text)
        plain = good("train", "--print-config", "--config", again, "--ranks", 1)
        expect_equal(plain, good("train", "--print-config", "--config", name, "--set", "output=" + long, "--ranks", 1))


@check
def deepspeed_json_alone_and_over_yaml():
    ds = write("ds.json", '{"train_batch_size": 32, "gradient_clipping": 0.5, "optimizer": {"type": "SGD", '
               '"params": {"lr": 0.1}}}')
    expect_in("train_batch_size: 32", good("config", "show", ds, "--ranks", 1))
    both = good("config", "show", os.path.join(CONFIGS, "default.yaml"), "--deepspeed_config", ds, "--ranks", 1)
    expect_match(both, r"gradient_clipping: 0\.5 +# .*ds\.json")
    expect_in("train_micro_batch_size_per_gpu: 4", both)


@check
def deepspeeds_auto_follows_from_other_keys():
    def ds(**changed):
        keys = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
                "gradient_clipping": "auto", "optimizer": {"type": "Adam", "params": {
                    "lr": 0.01, "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
                "scheduler": {"type": "WarmupLR", "params": {
                    "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
                "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto", "overlap_comm": "auto"}, **changed}
        return write("auto.json", json.dumps(keys))

    done = succeeds("config", "show", ds(), "--ranks", 3)
    expect_in("train_batch_size: 24  (follows on 3 ranks)", done.stdout)
    expect_match(done.stdout, r"warmup_max_lr: 0\.01 +# default")
    expect_match(done.stdout, r"betas: \[0\.9, 0\.999\] +# default")
    expect_not_in("bucket_size", done.stdout)
    expect_match(done.stderr, r"^warning: .*train_batch_size, .*gradient_clipping 0, ")
    plain = {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    for changed in ({"train_micro_batch_size_per_gpu": 8, "train_batch_size": 32},
                    {"train_micro_batch_size_per_gpu": "auto", "train_batch_size": 32},
                    {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": "auto"}):
        expect_match(good("config", "check", ds(**changed), "--ranks", 2), r"\n +2 +32 +8 +2\n")
    for changed, key in (({"train_micro_batch_size_per_gpu": "auto"}, "train_micro_batch_size_per_gpu"),
                         ({"optimizer": {"type": "auto"}}, "optimizer.type"),
                         ({"seed": "auto"}, "seed"), ({"train": {"epochs": "auto"}}, "train.epochs")):
        bad(USAGE, key, "config", "check", ds(**{**plain, **changed}))


@check
def config_check_prints_the_batch_sizes():
    for name in sorted(name for name in os.listdir(CONFIGS) if name.endswith(".yaml") or name.endswith(".json")):
        over = ["--deepspeed_config", "imagenet_ds_config.json"] if name == "imagenet_resnet50.yaml" else []
        text = good("config", "check", os.path.join(CONFIGS, name), *over)
        expect_in((over[-1] if over else name) + ": ok", text)
        expect_equal(len(text.splitlines()), 6, text)
    expect_match(good("config", "check", os.path.join(CONFIGS, "default.yaml")), r"\n +4 +16 +4 +1\n")


@check
def config_check_accepts_the_options_of_train():
    default = os.path.join(CONFIGS, "default.yaml")
    text = good("config", "check", default, "--set", "train_batch_size=24", "--ranks", 3)
    expect_match(text, r"ok\n.*\n +3 +24 +4 +2\n$")
    expect_match(good("config", "check", "--ranks", "auto", default), r"\n +\d+ +16 +4 +\d+\n$")
    bad(USAGE, "default.yaml: Check batch related parameters", "config", "check", default, "--ranks", 3)
    bad(USAGE, "--ranks x", "config", "check", default, "--ranks", "x")
    bad(USAGE, "--set train.epochs=many", "config", "check", default, "--set", "train.epochs=many")


@check
def wrong_configurations():
    default = os.path.join(CONFIGS, "default.yaml")
    typo = write("typo.yaml", "optimizer: {type: SGD}\ntrain: {epoch: 1}\n")
    bad(USAGE, "typo.yaml:2:9: ", "config", "check", typo)
    bad(USAGE, "train.epochs", "config", "show", typo)
    bad(USAGE, "dup.yaml:2:1", "config", "check", write("dup.yaml", "seed: 1\nseed: 2\n"))
    bad(USAGE, "missing.yaml", "config", "check", "missing.yaml")
    bad(USAGE, "train.epochs", "config", "show", default, "--set", "train.epochs=many")
    bad(USAGE, "--set", "config", "show", default, "--set", "train.epochs")
    bad(USAGE, "3 ranks", "config", "show", default, "--ranks", 3)
    bad(USAGE, "--ranks", "config", "show", default, "--ranks", "x")
    uneven = write("uneven.yaml", "optimizer: {type: SGD}\ntrain_batch_size: 10\n"
                   "train_micro_batch_size_per_gpu: 4\n")
    bad(USAGE, "uneven.yaml", "config", "check", uneven)
    bad(USAGE, "garbage.yaml", "config", "check", write("garbage.yaml", "a: [1, {\n\x01"))
    listed = bad(USAGE, "2 of 3", "config", "check", typo, default, uneven)
    expect_in("default.yaml: ok", listed)
    expect_in("typo.yaml:2:9", listed)


# ---- data

@check
def the_synthetic_set_is_written_once_and_verifies():
    out = path("fresh")
    expect_in("synthetic-10-batches-bin: written", good("data", "synth", "--out", out))
    expect_in("was there already", good("data", "synth", "--out", out))
    for words in [("--data", out), ("--data", os.path.join(out, "synthetic-10-batches-bin") + "/"),
                  ("--data", out, "--dataset", "synthetic")]:
        text = good("data", "verify", *words)
        expect_in("synthetic-10 in", text)
        expect_equal(text.count(" 30730000 "), 6)
        expect_equal(text.count("  ok\n"), 6)


@check
def a_small_synthetic_set_is_the_beginning_of_the_whole_one():
    out = path("little")
    expect_in("written", good("data", "synth", "--out", out, "--images", 250))
    expect_in("was there already", good("data", "synth", "--out", out, "--images", 250))
    text = good("data", "verify", "--data", out)
    expect_equal((text.count(" 153650 "), text.count("  ok\n")), (6, 6))
    expect_match(good("data", "info", "--data", out), r"(?s)250 images to train on, 50 to .*0  striped-disc +25 +5\n")
    folder = os.path.join(out, "synthetic-10-batches-bin")
    for name in ("data_batch_1.bin", "test_batch.bin"):
        with open(os.path.join(folder, name), "rb") as small, open(os.path.join(synthetic_set(), name), "rb") as whole:
            expect_equal(small.read(), whole.read(153650))
    good("train", "--output", path("little-run"), "--set", "data.path=" + out,
         "--set", "model.name=linear", "--set", "train.epochs=1", "--ranks", 1)
    best = path("little-run", "best.bin")
    expect_in("on the 50 test images", good("eval", "--ckpt", best))
    bad(DATA, "no such folder", "eval", "--ckpt", best, "--data", out + "-elsewhere")
    expect(json.loads(good("doctor", "--json", "--data", out))["data"]["ok"])
    for wrong in (0, 49, 60, 50050):
        bad(USAGE, "--images", "data", "synth", "--out", path("odd"), "--images", wrong)
    bad(DATA, "has 250 images", "data", "synth", "--out", out)
    os.rename(out, out + "-elsewhere")  # the whole set would be made in memory
    bad(DATA, "10000 test images, where the run had 50", "eval", "--ckpt", best)
    os.rename(out + "-elsewhere", out)
    flip(os.path.join(folder, "data_batch_2.bin"), 5000)
    bad(DATA, "data_batch_2.bin: bytes differ", "data", "verify", "--data", out)
    os.truncate(os.path.join(folder, "data_batch_1.bin"), 3073 * 7)
    bad(DATA, "data_batch_1.bin: truncated", "data", "verify", "--data", out)
    bad(DATA, "data_batch_1.bin: truncated", "data", "info", "--data", out)


@check
def data_info():
    synthetic_set()
    text = good("data", "info", "--data", path("data"))
    expect_in("50000 images to train on, 10000 to test on", text)
    expect_match(text, r"0  striped-disc +5000 +1000\n")
    expect_match(text, r"mean: \[0\.\d{4}, 0\.\d{4}, 0\.\d{4}\]")
    expect_not_in("CIFAR", text)
    expect_equal(good("data", "info", path("data")), text)
    bad(USAGE, "both given", "data", "info", path("data"), "--data", path("data"))
    # The last line is one of a configuration, and the numbers of the JSON are those of the text.
    line = text.splitlines()[-1]
    config = path("normalized.yaml")
    with open(DEFAULT) as file, open(config, "w") as out:
        out.write(re.sub(r"(?m)^  normalize: .*$", "  " + line[len("data: {"):-1], file.read()))
    shown = good("config", "show", config, "--data", path("data"))
    told = json.loads(good("data", "info", path("data"), "--json"))
    for key in ("mean", "std"):
        rounded = "[%s]" % ", ".join("%.4f" % x for x in told["normalize"][key])
        expect_in("%s: %s" % (key, rounded), line)
        expect_match(shown, r"%s: \[%s" % (key, re.escape("%.4f" % told["normalize"][key][0]).rstrip("0")))
    expect_equal(told["parts"]["train"], {"images": 50000, "per_class": [5000] * 10})
    expect_equal((told["kind"], told["sample"]), ("synthetic", {"channels": 3, "height": 32, "width": 32}))


@check
def data_info_of_a_configuration_and_its_pictures():
    pets = path("info-pets")
    for i, (kind, size) in enumerate([("cat", 40), ("cat", 24), ("dog", 60)]):
        os.makedirs(os.path.join(pets, kind), exist_ok=True)
        with open(os.path.join(pets, kind, "%d.png" % i), "wb") as file:
            file.write(png(size, size, bytes(size * size * 3)))
    config, sheet = path("info.yaml"), path("sheet.png")
    with open(config, "w") as file:
        file.write("data: {path: %s, size: 48, resize: 48}\noptimizer: {type: SGD, params: {lr: 0.1}}\n"
                   "train_batch_size: 2\ntrain_micro_batch_size_per_gpu: 2\n" % pets)
    text = good("data", "info", config, "--sheet", sheet)
    expect_in("3 images to train on, of which a part is held out, 48x48, 3 channels, 2 classes", text)
    expect_in("pictures of 24x24 to 60x60 pixels", text)
    expect_match(text, r"0  cat +2\n +1  dog +1\n")
    with open(sheet, "rb") as file:
        found = file.read()
    width, height = struct.unpack(">2I", found[16:24])
    expect_equal((found[:8], width, height), (b"\x89PNG\r\n\x1a\n", 10 * 50 + 2, 2 * 50 + 2))
    good("data", "info", config, "--sheet", sheet)  # its own file is replaced
    with open(sheet, "wb") as file:
        file.write(png(2, 2, bytes(12)))
    bad(USAGE, "another --sheet", "data", "info", config, "--sheet", sheet)
    bad(USAGE, "the sheet is a PNG", "data", "info", config, "--sheet", path("sheet.jpg"))
    bad(USAGE, "nowhere.yaml", "data", "info", "nowhere.yaml")
    bad(DATA, "no such folder", "data", "info", path("nowhere"))


@check
def damaged_data():
    out = path("damaged")
    folder = os.path.join(out, "synthetic-10-batches-bin")
    shutil.copytree(synthetic_set(), folder)
    batch = os.path.join(folder, "data_batch_3.bin")
    flip(batch, 12345678)  # a pixel
    text = bad(DATA, "data_batch_3.bin", "data", "verify", "--data", out)
    expect_equal(text.count("  ok\n"), 5)
    with open(batch, "r+b") as file:
        file.write(b"\x63")  # a label
    expect_in("record 0 has label 99", bad(DATA, "data_batch_3.bin", "data", "verify", "--data", out))
    bad(DATA, "data_batch_3.bin", "data", "info", "--data", out)
    os.truncate(batch, 3073 * 17 + 5)
    bad(DATA, "truncated", "data", "verify", "--data", out)
    bad(DATA, "data_batch_3.bin", "data", "info", "--data", out)
    os.remove(batch)
    os.remove(os.path.join(folder, "test_batch.bin"))
    text = bad(DATA, "1 more", "data", "verify", "--data", out)
    expect_equal(text.count("no such file"), 2)
    with open(os.path.join(folder, "batches.meta.txt"), "w") as file:
        file.write("one\n")
    bad(DATA, "batches.meta.txt", "data", "verify", "--data", folder)


@check
def cifar_is_compared_with_the_published_files():
    folder = path("unpublished", "cifar-10-batches-bin")
    shutil.copytree(synthetic_set(), folder, copy_function=os.link)  # without its names it is taken for CIFAR-10
    os.remove(os.path.join(folder, "batches.meta.txt"))
    text = good("data", "verify", "--data", folder)
    expect_equal(text.count("  ok\n"), 6)
    expect_in("no file has the checksum of a published one of CIFAR-10: ", text)
    second = os.path.join(folder, "data_batch_2.bin")
    os.remove(second)
    os.link(os.path.join(folder, "data_batch_1.bin"), second)
    text = bad(DATA, "data_batch_2.bin: the same bytes as data_batch_1.bin; unpack", "data", "verify", "--data", folder)
    expect_equal(text.count("  ok\n"), 5)


@check
def missing_or_other_data():
    synthetic_set()
    bad(DATA, "data synth", "data", "verify", "--data", path("nowhere"))
    bad(DATA, "cifar-10-batches-bin", "data", "info", "--data", path("data"), "--dataset", "cifar10")
    bad(DATA, "cifar-10-batches-bin", "data", "verify", "--data", synthetic_set(), "--dataset", "cifar10")
    bad(USAGE, "--dataset", "data", "verify", "--dataset", "imagenet")
    expect(not os.path.exists(path("nowhere")))
    blocked = path("blocked")
    os.makedirs(blocked)
    write("blocked/synthetic-10-batches-bin", "a file")
    bad(DATA, "synthetic-10-batches-bin", "data", "synth", "--out", blocked)


# ---- ckpt

@check
def ckpt_ls():
    text = good("ckpt", "ls", trained())
    expect_match(text, r"\n +0 .* 1  good\n")
    expect_match(text, r"\n +3 .* 1  good\n")


@check
def ckpt_inspect_agrees_with_the_run():
    with open(os.path.join(trained(), "metrics.jsonl")) as lines:
        end = json.loads(lines.readlines()[-1])
    expected = "weights_sha256: %s\n" % end["weights_sha256"]
    for file_path in [trained() + "/", checkpoint(), os.path.join(checkpoint(), "weights.safetensors"),
                      os.path.join(trained(), "last.bin")]:
        expect_in(expected, good("ckpt", "inspect", file_path))
    expect_not_in(expected, good("ckpt", "inspect", checkpoint(0)))
    text = good("ckpt", "inspect", checkpoint())
    expect_in("[10, 3072]", text)
    expect_in("metadata cifar_train.dataset: synthetic-10", text)
    expect_in("state step: 3\n", text)


@check
def ckpt_inspect_hash_is_of_the_whole_state():
    def of(file_path):
        return [line for line in good("ckpt", "inspect", file_path, "--hash").splitlines() if "state_sha256" in line]
    expect_equal(len(of(trained())), 1)
    expect_equal(of(trained()), of(checkpoint()))
    expect(of(trained()) != of(checkpoint(0)))
    other = path("two-ranks")
    train_linear(other, ranks=2)
    expect_equal(of(trained()), of(other))
    bad(USAGE, "--hash", "ckpt", "inspect", os.path.join(trained(), "last.bin"), "--hash")


@check
def ckpt_diff_exits_as_diff_does():
    expect(good("ckpt", "diff", trained(), checkpoint()).endswith(" tensors differ\n"))
    done = run("ckpt", "diff", checkpoint(0), checkpoint())
    expect_equal((done.returncode, done.stderr), (1, ""))
    expect_match(done.stdout, r"(?m)^\S+weight: \d+ elements differ, by .*$")
    expect_match(done.stdout, r"(?m)^state step: 0 and 3$")
    back = run("ckpt", "diff", checkpoint(), checkpoint(0))
    expect_equal((back.returncode, back.stderr), (1, ""))
    expect_equal(len(back.stdout.splitlines()), len(done.stdout.splitlines()), back.stdout, done.stdout)
    with open("/dev/full", "w") as full:  # what differs could not be told
        expect_equal(subprocess.run([PROGRAM, "ckpt", "diff", checkpoint(0), checkpoint()],
                                    stdout=full, stderr=subprocess.PIPE).returncode, 8)
    bad(USAGE, "nowhere", "ckpt", "diff", checkpoint(), "nowhere")


@check
def ckpt_verify_names_damaged_parts():
    text = good("ckpt", "verify", trained())
    expect_in("last.bin: good", text)
    expect_in("step-00000003: good", text)

    damaged = copy(trained(), "bit-flipped")
    newest = os.path.join(damaged, "ckpt", "step-00000003")
    weights = os.path.join(newest, "weights.safetensors")
    flip(weights, os.path.getsize(weights) - 100)
    text = bad(CHECKPOINT, "weights.safetensors", "ckpt", "verify", damaged)
    expect_in("step-00000000: good", text)
    bad(CHECKPOINT, ".weight", "ckpt", "verify", newest)
    bad(CHECKPOINT, ".weight", "ckpt", "verify", weights)
    bad(CHECKPOINT, "weights.safetensors", "ckpt", "inspect", newest)
    # What can still be used is: the run's newest good one, with a warning.
    shown = run("ckpt", "inspect", damaged)
    expect_equal(shown.returncode, DONE)
    expect_in("step-00000000\n", shown.stdout)
    expect_in("warning: ", shown.stderr)
    listed = run("ckpt", "ls", damaged)
    expect_equal(listed.returncode, DONE)
    expect_match(listed.stdout, r"\n +3 .* -  damaged\n")
    in_its_place = os.path.join(damaged, "ckpt", "step-00000009")
    open(in_its_place, "w").close()
    listed = run("ckpt", "ls", damaged)
    expect_equal(listed.returncode, DONE)
    expect_match(listed.stdout, r"\n +9 .* -  damaged\n")
    os.remove(in_its_place)

    os.truncate(os.path.join(newest, "state.json"), 20)
    os.remove(os.path.join(damaged, "ckpt", "step-00000000", "manifest.json"))
    bad(CHECKPOINT, "more problems", "ckpt", "verify", damaged)
    bad(CHECKPOINT, "none of the 2 checkpoints", "ckpt", "inspect", damaged)
    last = os.path.join(damaged, "last.bin")
    os.truncate(last, os.path.getsize(last) - 1)
    bad(CHECKPOINT, "last.bin", "ckpt", "inspect", last)
    bad(CHECKPOINT, "last.bin", "ckpt", "verify", last, checkpoint())


@check
def other_files_and_folders():
    def foreign(name, dtype, size):
        header = json.dumps({"a\nb": {"dtype": dtype, "shape": [2], "data_offsets": [0, 2 * size]}}).encode()
        file_path = path(name)
        with open(file_path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(2 * size))
        return file_path
    f32, f16 = foreign("foreign.safetensors", "F32", 4), foreign("half.safetensors", "F16", 2)
    text = good("ckpt", "inspect", f32)
    expect_in("'a\\x0ab'", text)
    expect_in("no checksums", text)
    expect_in("weights_sha256: none", good("ckpt", "inspect", f16))
    expect_in("no checksums", good("ckpt", "verify", f32))

    for file_path in ["nowhere", path(), write("garbage.bin", "garbage"), write("empty.bin", "")]:
        code = USAGE if file_path == "nowhere" else CHECKPOINT
        bad(code, os.path.basename(file_path), "ckpt", "inspect", file_path)
        bad(code, os.path.basename(file_path), "ckpt", "verify", file_path)
    os.makedirs(path("hollow", "ckpt"))
    for word in ["ls", "inspect", "verify"]:
        bad(CHECKPOINT, "hollow", "ckpt", word, path("hollow"))
        bad(USAGE, "required", "ckpt", word)
    bad(USAGE, "ckpt inspect", "ckpt", "ls", checkpoint())


# ---- eval

@check
def eval_is_quiet_where_that_is_asked():
    words = ["eval", "--ckpt", trained(), "--max-images", 10]
    loud, quiet = run(*words), run(*words, "-q")
    expect_in("loss ", loud.stderr)
    expect_equal((quiet.returncode, quiet.stderr), (DONE, ""))
    expect_equal(quiet.stdout, loud.stdout)
    expect_in("--quiet", good("eval", "--help"))


# ---- doctor

@check
def doctor():
    synthetic_set()
    text = good("doctor", "--data", path("data"))
    for what in ["cores", "memory", "device", "MPI library", "/dev/shm", "TMPDIR", "disk here", "clock"]:
        expect_match(text, r"(?m)^(ok  |warn)  %s " % what)
    expect_match(text, r"ok +data +synthetic-10 in ")
    findings = json.loads(good("doctor", "--json", "--data", path("data")))
    expect(findings["data"]["ok"])
    expect_equal(len(re.findall("(?m)^warn ", text)), sum(not f["ok"] for f in findings.values()))


@check
def doctor_warns_with_the_remedy():
    out = path("sick")
    shutil.copytree(synthetic_set(), os.path.join(out, "synthetic-10-batches-bin"))
    os.truncate(os.path.join(out, "synthetic-10-batches-bin", "test_batch.bin"), 1)
    findings = json.loads(good("doctor", "--json", "--data", out, TMPDIR="/nowhere", PATH="/nowhere"))
    expect_in("test_batch.bin", findings["data"]["warning"])
    expect_in("set TMPDIR", findings["TMPDIR"]["warning"])
    expect_equal(findings["mpirun"]["value"], "not on PATH")
    contradiction = json.loads(good("doctor", "--json", OMPI_COMM_WORLD_RANK="x", OMPI_COMM_WORLD_SIZE="2"))
    expect_in("OMPI_COMM_WORLD_RANK", contradiction["launcher"]["warning"])


@check
def doctor_knows_what_mpirun_refuses_root():
    findings = json.loads(good("doctor", "--json", OMPI_ALLOW_RUN_AS_ROOT=None))
    expect_in("OMPI_ALLOW_RUN_AS_ROOT=1", findings["mpirun as root"]["warning"])
    findings = json.loads(good("doctor", "--json", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
    expect(findings["mpirun as root"]["ok"])


@check
def doctor_looks_for_mpirun_where_a_bundle_has_it():
    bundle = path("bundle")
    for folder in ["bin", "libexec"]:
        os.makedirs(os.path.join(bundle, folder))
    program = copy(PROGRAM, "bundle/libexec/cifar-train")
    findings = json.loads(good("doctor", "--json", program=program, PATH="/nowhere"))
    expect_equal(findings["mpirun"]["value"], "not on PATH")
    launcher = write("bundle/bin/mpirun", "#!/bin/sh\n")
    os.chmod(launcher, 0o755)
    findings = json.loads(good("doctor", "--json", program=program, PATH="/nowhere"))
    expect_equal(findings["mpirun"]["value"], launcher)
    expect(findings["mpirun"]["ok"])


@check
def doctor_without_gpus():
    findings = json.loads(good("doctor", "--json"))
    if "GPUs" in findings:
        expect_equal(findings["GPUs"], {"value": "built without CUDA", "ok": True, "warning": ""})
    else:
        expect_in("CUDA runtime", findings)


@check
def doctor_on_gpus():
    need_on_host()
    def findings(**environment):
        return json.loads(good("doctor", "--json", program=ON_HOST, **environment))
    found = findings(ON_HOST_DEVICES="2", ON_HOST_DRIVER="13010", ON_HOST_CAPABILITY="9.0")
    expect_in("serves CUDA 13.1", found["NVIDIA driver"]["value"])
    expect(found["NVIDIA driver"]["ok"])
    expect_equal(found["CUDA runtime"]["value"], "13.0, a part of this program")
    for gpu in ["GPU 0", "GPU 1"]:
        expect_match(found[gpu]["value"], r"\(sm_90\), \d\.\d GB free of 2\.1 GB, GPU(-[0-9a-f]+){5}$")
        expect(found[gpu]["ok"])
    expect_not_in("GPU 2", found)
    for library in ["cuDNN", "cuBLASLt", "NCCL"]:
        expect_match(found[library]["value"], r"^\d+\.\d+\.\d+ in /.*\.so\.|^cannot be used$")
        expect_equal(found[library]["ok"], found[library]["value"] != "cannot be used")
    old = findings(ON_HOST_CAPABILITY="7.5", ON_HOST_DEVICES="1")
    expect_in("sm_80", old["GPU 0"]["warning"])
    late = findings(ON_HOST_DRIVER="12040")
    expect_in("update the driver", late["NVIDIA driver"]["warning"])
    expect_not_in("GPU 0", late)
    none = findings(ON_HOST_DRIVER="0")
    expect_in("no NVIDIA driver", none["NVIDIA driver"]["value"])
    expect(all(none[what]["ok"] for what in ["NVIDIA driver", "cuDNN", "cuBLASLt", "NCCL"]))


@check
def doctor_says_which_library_is_wrong():
    need_on_host()
    folder = path("libraries")
    os.makedirs(folder, exist_ok=True)
    damaged = write("libraries/libcudnn.so.9", "no library")
    found = json.loads(good("doctor", "--json", "--cuda-path", folder, program=ON_HOST))
    expect_equal(found["cuDNN"]["value"], "cannot be used")
    expect_in(damaged, found["cuDNN"]["warning"])
    bad(USAGE, "--cuda-path /nowhere", "doctor", "--cuda-path", "/nowhere", program=ON_HOST)


@check
def a_cuda_path_without_libraries():
    """A given path must have the libraries, even if they are not searched there."""
    folder = path("no-libraries")
    os.makedirs(os.path.join(folder, "lib64"))
    reduce = ["bench", "reduce", "--device", "cpu", "--elements", 5000, "--windows", 1, "--seconds", 0.001]
    for words in ["doctor"], ["selftest", "--device", "cpu"], reduce:
        bad(USAGE, "--cuda-path %s (cuda.path) has no libcudnn" % folder, *words, "--cuda-path", folder)
    write("no-libraries/lib64/libnccl.so.2", "whatever it is")
    good(*reduce, "--cuda-path", folder)


# ---- selftest

@check
def selftest():
    text = good("selftest", "--device", "cpu", "-v")
    for op in ["conv2d", "linear_grad_w", "batch_norm", "adam"]:
        expect_match(text, r"(?m)^%s +\d+  f32 bf16 +\d+ %%$" % op)
    total = re.search(r"(?m)^total +(\d+) ", text)
    expect_in("fp16", text.splitlines()[-1])  # why those cases are skipped
    expect_equal(len(re.findall("(?m)^ok ", text)), int(total.group(1)))
    bad(USAGE, "--device", "selftest", "--device", "abacus")


@check
def selftest_as_json():
    report = json.loads(good("selftest", "--device", "cpu", "--json"))
    expect_equal(report["failed"], 0)
    expect_equal(report["cases"], sum(op["cases"] for op in report["ops"].values()))
    expect_equal(report["types"], ["f32", "bf16"])
    expect(report["skipped"] > 100)
    expect(0 < report["largest_error"] <= 1)


@check
def selftest_without_a_gpu_is_one_line():
    need_on_host()
    bad(USAGE, "no NVIDIA driver", "selftest", "--device", "cuda", program=ON_HOST, ON_HOST_DRIVER="0")


# ---- devices

@check
def version_tells_of_gpus():
    expect_match(good("--version"), r"(?m)^GPUs: (none \(built without CUDA\)|CUDA \d+\.\d for sm_.*)$")


@check
def version_as_json():
    found, text = json.loads(good("--version", "--json")), good("--version")
    expect_equal(text.splitlines()[0], "cifar-train %s (%s)" % (found["version"], found["commit"]))
    for name, value in [("compiler", found["compiler"]), ("device", found["device"]), *found["libraries"].items()]:
        expect_in("\n%s: %s\n" % (name, value), text)
    expect_equal(found["cuda"] is None, "built without CUDA" in text, found)
    expect_in(found["instruction_set"], found["device"])
    expect_match(found["libraries"]["glibc"], r"^2\.\d+$")
    bad(USAGE, "--version takes --json alone, not 'now'", "--version", "now")
    if os.path.exists(ON_HOST):
        cuda = {"toolkit": "13.0", "architectures": ["the stand-in on the host"]}
        expect_equal(json.loads(good("--version", "--json", program=ON_HOST, ON_HOST_DRIVER="0"))["cuda"], cuda)


@check
def version_asks_no_driver():
    need_on_host()
    text = good("--version", program=ON_HOST, ON_HOST_DRIVER="0")
    expect_match(text, r"(?m)^GPUs: CUDA 13\.0 for the stand-in on the host$")


@check
def auto_asks_the_driver_once():
    """Each GPU once: a third query would get no answer."""
    need_on_host()
    text = good("config", "show", os.path.join(CONFIGS, "default.yaml"), "--set", "device=auto", program=ON_HOST,
                ON_HOST_DEVICES="2", ON_HOST_FAIL="cudaGetDeviceProperties:46:3")
    expect_in("(follows on 2 ranks)", text)


@check
def a_shared_gpu_is_named_as_nvidia_smi_names_it():
    need_on_host()
    words = ["bench", "reduce", "--device", "cuda", "--ranks", 2]
    bad(USAGE, "ranks 0 and 1 have the same GPU (GPU-10355a7f-a4c9-ee13-385d-82a7ccf1163b)", *words,
        program=ON_HOST, ON_HOST_DEVICES="1")


main()
