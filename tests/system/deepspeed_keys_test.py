#!/usr/bin/env python3
"""DeepSpeed configurations key by key: `config import` reports the fate of each key as in docs/configuration.md; the
JSON Schema knows the same keys."""
import base64
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from deepspeed_configs import ADAM
from deepspeed_configs import CONFIGS as DEEPSPEED
from harness import *
from json_schema import problems

PAGE = os.path.join(CONFIGS, "..", "docs", "configuration.md")
LINE = re.compile(r"^#   (honoured|ignored|refused) +([\w.-]+): (.*)$")


def written(name, text):
    file = path(name)
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)
    return file


def imported(file):
    """{key: (fate, value, why)} and the rest of the output."""
    done = run("config", "import", file)
    fates, rest = {}, []
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        if match:
            value, _, why = match[3].partition("  -- ")
            fates[match[2]] = (match[1], value, why)
        else:
            rest.append(line)
    refused = any(fate == "refused" for fate, _, _ in fates.values())
    expect_equal(done.returncode, USAGE if refused else DONE, file, done.stdout, done.stderr)
    expect_equal(len([line for line in done.stderr.splitlines() if line.startswith("error: ")]), int(refused))
    return fates, "\n".join(rest) + "\n"


def told():
    """The page's rows: ({key: None}, {key: (ignored values, why)}); the values are a list, "any" or "none"."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    section = re.search(r"(?s)## DeepSpeed's keys, one by one\n(.*?)\n## ", page)[1]
    honoured, ignored = {}, {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        keys = re.findall(r"`([\w.*]+)`", cells[0]) if line.startswith("| `") else []
        for key in keys:
            if len(cells) == 2:
                honoured[key] = None
            else:
                values = cells[1] if cells[1] in ("any", "none") else re.findall(r"`([^`]+)`", cells[1])
                ignored[key] = (values, cells[2])
    return honoured, ignored


def row_of(key, ignored):
    """The key's name on the page."""
    key = key.replace("bfloat16.", "bf16.").replace("gather_fp16_weights", "gather_16bit_weights")
    block, _, name = key.rpartition(".")
    return ignored.get(key) or ignored.get(block + ".stage3_" + name) or ignored.get(block + ".*")


def leaves(tree, block=""):
    """Keys and values; a list or an empty map is a value."""
    for key, value in tree.items():
        if isinstance(value, dict) and value and block + key not in ("compression_training", "sparse_attention",
                                                                    "tensor_parallel", "zero_optimization.zeropp_loco_param",
                                                                    "zero_optimization.zenflow"):
            yield from leaves(value, block + key + ".")
        else:
            yield block + key, value


def tree_of(text):
    """The file parsed by Python, without the parts that JSON lacks."""
    text = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*|# [^\n]*", "", text, flags=re.S)
    text = re.sub(r",(\s*[}\]])", r"\1", re.sub(r"(?m)([{,]\s*)(\w+):", r'\1"\2":', text))
    return json.loads(text) if text.strip() else {}


@check
def forty_files_agree_with_the_page():
    honoured, ignored = told()
    expect(len(DEEPSPEED) >= 40 and len(honoured) > 50 and len(ignored) > 100, len(DEEPSPEED), len(honoured), len(ignored))
    seen = set()
    for name, text in DEEPSPEED.items():
        fates, yaml = imported(written(name + ".json", text))
        keys = dict(leaves(tree_of(text)))
        expect_equal(set(fates), set(keys), name)
        for key, value in keys.items():
            fate, _, why = fates[key]
            where = "%s: %s is %s (%s)" % (name, key, fate, why)
            seen.add(key)
            row = row_of(key, ignored)
            if key.startswith("_"):
                expect_equal(fate, "ignored", where)
            elif value in ({}, None) and row is None and key not in honoured:
                expect_equal((fate, why), ("ignored", "it is empty"), where)
            elif fates.get(key.split(".")[0] + ".type", ("",))[0] == "refused":
                expect_equal(fate, "refused", where)  # a type that is not built, and what belongs to it
            elif why == "it belongs to a refused block":
                expect_equal(fates[key.rsplit(".", 1)[0] + ".enabled"][0], "refused", where)
            elif key.split(".")[0] in ("optimizer", "scheduler") and fate == "honoured":
                pass  # which parameters there are depends on the type
            elif row is None:
                expect(key in honoured or fate == "refused", where)
                expect(fate == "honoured" or why, where)
            elif fate == "honoured":
                expect(key in ("zero_optimization.cpu_offload", "zero_optimization.cpu_offload_param"), where)  # true is another key's
            else:
                text_of = json.dumps(value).strip('"')
                harmless = row[0] == "any" or value in (None, "auto") or row[0] != "none" and text_of.rstrip("0").rstrip(
                    ".").lower() in [v.rstrip("0").rstrip(".").lower() for v in row[0]]
                expect_equal(fate, "ignored" if harmless else "refused", where)
                if fate == "ignored":
                    expect_equal(why, row[1], where)
                else:
                    expect("is not supported by this version" in why or " must be " in why, where)
        again = written(name + ".yaml", yaml)
        if all(fate != "refused" for fate, _, _ in fates.values()) and "optimizer.type" in fates:
            shown = [run("config", "show", file, "--ranks", 1 if name != "imagenet" else 36) for file in (path(name + ".json"), again)]
            values = [[line.split(" #")[0].rstrip() for line in done.stdout.splitlines()] for done in shown]
            expect_equal([done.returncode for done in shown], [DONE, DONE], name, shown[0].stderr, shown[1].stderr)
            expect_equal(values[1], values[0], name)
    block_keys = {key.rsplit(".", 1)[0] + ".*" for key in seen if "." in key}
    missing = [key for key in [*honoured, *ignored] if key not in seen | block_keys]
    expect_equal(missing, [], "keys of the page that no file has")


@check
def the_page_has_every_key_of_the_table():
    honoured, ignored = told()
    schema = json.loads(run("config", "schema").stdout)

    def described(node, block=""):
        for key, value in node.get("properties", {}).items():
            for way in (value, *value.get("anyOf", [])):  # by type of optimizer
                if way.get("description", "").startswith(("ignored: ", "refused: ")):
                    yield block + key, way["description"].partition(": ")[2]
            yield from described(value, block + key + ".")

    known = dict(described(schema))
    expect(len(known) > 100, known)
    for key, why in known.items():
        if "sync_b" not in key:
            expect_equal(row_of(key, ignored) and row_of(key, ignored)[1], why, key)
    for key in ignored:
        expect(key.endswith(".*") or key in known, "the page has %s, which the program does not know" % key)


@check
def base64_replaces_a_file():
    text = DEEPSPEED["tutorial"]
    word = base64.urlsafe_b64encode(text.encode()).decode()
    file = written("plain.json", text)
    expect(len(word) > 255, "longer than a file's name may be")
    for words in (["config", "import"], ["config", "show", "--ranks", 1]):
        done = [run(*words, name) for name in (file, word)]
        expect_equal([d.returncode for d in done], [DONE, DONE], done[1].stderr)
        of = [[line.split(" #")[0].rstrip() for line in d.stdout.splitlines()[1:]] for d in done]
        expect_equal(of[1], of[0])
    expect("From base64 " in run("config", "import", word).stdout, "the word's name")
    both = run("config", "show", DEFAULT, "--deepspeed_config", word, "--ranks", 1)
    expect("train_batch_size: 4 " in both.stdout and "base64 " in both.stdout, both.stdout, both.stderr)
    script = run("jobscript", "--scheduler", "slurm", "--time", "1h", "--config", word)
    expect(script.returncode == DONE and word in script.stdout, script.stdout, script.stderr)
    for bad in (word[:200] + "!", word[1:150], "x" * 40, "A" * 5000):
        done = run("config", "import", bad)
        expect_equal(done.returncode, USAGE, done.stdout, done.stderr)
        expect(done.stderr.count("\n") == 1, done.stderr)
    expect("Expected a string path to an existing deepspeed config, or a dictionary or a valid base64" in
           run("config", "check", DEFAULT, "--deepspeed_config", "x" * 40).stderr, "DeepSpeed's words")


@check
def invalid_base64_is_reported():
    for word in ("!!!", "bm9uc2Vuc2U=", "eyJ0cmFpbl9iYXRjaF9zaXpl!"):
        fails(USAGE, run("train", "--config", DEFAULT, "--deepspeed_config", word), word, "base64 of a configuration")


@check
def deepspeed_without_a_configuration():
    done = succeeds("--deepspeed", "--print-config")
    done = run("--deepspeed_config", "")
    expect_equal(done.returncode, USAGE)
    expect("DeepSpeed requires --deepspeed_config to specify configuration file" in done.stderr, done.stderr)
    expect_equal(run("--deepscale", "--deepscale_config", written("old.json", DEEPSPEED["tutorial"]),
                     "--print-config").returncode, DONE)


@check
def an_import_writes_new_files_only():
    file, out = written("in.json", DEEPSPEED["tutorial"]), path("ours.yaml")
    done = succeeds("config", "import", file, "--out", out)
    expect(done.stdout.startswith("honoured  train_batch_size: 4\n"), done.stdout)
    expect_equal(run("config", "check", out).returncode, DONE)
    again = run("config", "import", file, "--out", out)
    fails(USAGE, again, out, "exists already")


@check
def prescaled_gradients():
    """The bits are unchanged if the number of micro-batches is a power of two; else they are the same on any number of
    ranks."""
    few_steps = {**FEW, "data.path": few(), "train.max_steps": 6}
    six = {**few_steps, "train_batch_size": 24}
    for key, value in (("prescale_gradients", True), ("gradient_predivide_factor", 4)):
        train(path("plain"), few_steps, "--reset")
        train(path(key), {**few_steps, key: value}, ranks=Ranks(2))
        expect_equal(weights_sha256(path(key, "last.bin")), weights_sha256(path("plain", "last.bin")), key)
    train(path("plain-six"), six)
    for number in (1, 3):
        train(path("six-%d" % number), {**six, "prescale_gradients": True}, ranks=Ranks(number))
    hashes = [weights_sha256(path(name, "last.bin")) for name in ("plain-six", "six-1", "six-3")]
    expect(hashes[1] == hashes[2] != hashes[0], hashes)


@check
def the_newest_checkpoint_is_named():
    output = path("named")
    settings = {**FEW, "data.path": few(), "train.max_steps": 6, "train.save_interval": 2, "checkpoint.keep_last": 2}
    train(output, settings)
    latest = os.path.join(output, "ckpt", "latest")
    with open(latest) as file:
        expect_equal(file.read(), "step-00000006\n")
    step = os.path.join(output, "ckpt", "step-00000004")
    train(output, {**settings, "train.max_steps": 5}, "--resume", step)
    with open(latest) as file:
        expect_equal(file.read(), "step-00000005\n")
    with open(latest, "w") as file:  # someone else's stays
        file.write("global_step120")
    train(output, {**settings, "train.max_steps": 7})
    with open(latest + ".aside") as file:
        expect_equal(file.read(), "global_step120")
    with open(latest) as file:
        expect_equal(file.read(), "step-00000007\n")
    train(output, settings, "--reset")
    expect(os.path.exists(latest + ".aside") and os.path.exists(latest), os.listdir(os.path.dirname(latest)))


@check
def elastic_batches():
    file = written("elastic.json", DEEPSPEED["elastic"])
    text = run("config", "check", file, "--ranks", 7).stdout
    expect(re.search(r"\n +7 +1680 +6 +40\n", text), text)
    done = run("config", "check", file, "--ranks", 9)
    expect_equal(done.returncode, USAGE)
    expect("World size (9) is not valid with the current list of valid GPU counts: [1, 2, 3, 4," in done.stderr, done.stderr)
    strict = run("config", "check", file, "--set", "elasticity.ignore_non_elastic_batch_info=false")
    expect_equal(strict.returncode, USAGE)
    expect("These parameters *will not be used* since elastic training is enabled" in strict.stderr, strict.stderr)


@check
def no_elastic_batch_is_above_its_maximum():
    for most, sizes, version in ((100, "[8, 10, 12]", 0.1), (50, "[4, 6, 10]", 0.1), (100, "[8, 10, 12]", 0.2)):
        batch = 120 if most == 100 else 60
        file = written("excess.json", """{%s, "elasticity": {"enabled": true, "max_train_batch_size": %d,
          "micro_batch_sizes": %s, "version": %s}}""" % (ADAM, most, sizes, version))
        fails(USAGE, run("config", "check", file), "excess.json:1:", "max_train_batch_size %d" % most, ", %d, " % batch)
        imported = run("config", "import", file)
        fails(USAGE, imported, "max_train_batch_size %d" % most)
        taken = run("config", "check", file, "--ranks", 1, "--set", "compat=[elastic_excess]")
        expect(taken.returncode == DONE and re.search(r"\n +1 +%d " % batch, taken.stdout), taken.stdout, taken.stderr)


@check
def parameters_offloaded_to_a_cpu_are_there_already():
    """On a CPU the key has the effect of offload_optimizer and changes no bit; a GPU's parameters stay on the GPU."""
    zero = {"stage": 3, "zero_hpz_partition_size": 8, "mics_shard_size": 2, "offload_optimizer": {"device": "cpu"},
            "offload_param": {"device": "cpu", "pin_memory": True}}
    file = written("offload.json", json.dumps({"zero_optimization": zero}))
    few_steps = {**FEW, "data.path": few(), "train.max_steps": 3}
    train(path("there"), {**few_steps, "zero_optimization.stage": 3}, "--device", "cpu")
    done = train(path("offloaded"), few_steps, "--deepspeed_config", file, "--device", "cpu")
    expect_equal(weights_sha256(path("offloaded", "last.bin")), weights_sha256(path("there", "last.bin")))
    for key in ("zero_hpz_partition_size", "mics_shard_size", "pin_memory"):
        expect(key in done.stderr, key, done.stderr)
    fails(USAGE, run("config", "check", DEFAULT, "--deepspeed_config", file, "--set", "device=cuda"), "offload_param",
          "a GPU's parameters stay there")


def shown(*words):
    """{key: value} of `config show`, by dotted key."""
    done = succeeds("config", "show", *words, "--ranks", 1)
    values, blocks = {}, []
    for line in done.stdout.splitlines():
        indent, (key, _, value) = (len(line) - len(line.lstrip())) // 2, line.split(" #")[0].strip().partition(": ")
        blocks = [*blocks[:indent], key.rstrip(":")]
        values[".".join(blocks)] = value
    return values


@check
def auto_batches_alone_are_those_of_the_default():
    for keys in ('"train_batch_size": "auto"', '"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"',
                 '"elasticity": {"enabled": false}', '"elasticity": {}'):
        found = shown("--deepspeed_config", written("auto.json", "{%s}" % keys))
        expect_equal((found["train_batch_size"], found["train_micro_batch_size_per_gpu"]), ("16", "4"), keys)
    found = shown("--deepspeed_config", written("auto.json", '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto"}'))
    expect_equal(found["train_batch_size"], "8")
    expect("train_micro_batch_size_per_gpu" not in found, "of default.yaml, which gives way", found)


@check
def auto_parameters_over_a_configuration_are_its_own():
    base = ["--config", os.path.join(CONFIGS, "resnet18.yaml"), "--deepspeed_config"]

    def over(optimizer, lr, schedule, **more):
        return written("auto.json", json.dumps({
            "optimizer": {"type": optimizer, "params": {"lr": lr, "weight_decay": "auto", **more}},
            "scheduler": {"type": schedule, "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}}}))

    def of(found):
        return [found.get(key) for key in ("optimizer.params.lr", "optimizer.params.momentum", "optimizer.params.weight_decay",
                                           "scheduler.params.warmup_max_lr", "scheduler.params.warmup_num_steps")]

    same = shown(*base, over("SGD", "auto", "WarmupDecayLR", momentum="auto"))
    expect_equal(of(same), ["0.05", "0.9", "5e-04", "0.05", "200"])
    # A rate of its own is the schedule's too; another type has parameters of its own.
    expect_equal(of(shown(*base, over("SGD", 0.5, "WarmupDecayLR", momentum="auto"))), ["0.5", "0.9", "5e-04", "0.5", "200"])
    expect_equal(of(shown(*base, over("Lion", "auto", "WarmupLR")))[2:], ["0", of(shown(*base, over("Lion", "auto", "WarmupDecayLR")))[0], "1000"])
    rates = shown(*base, written("auto.json", '{"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": "auto"}}}'))
    expect_equal(of(rates)[0::3], ["0.05", "0.05"])


@check
def a_switched_off_zero_is_stage_0():
    for value, stage in [("false", 0), ("true", 1)]:
        done = run("config", "check", "--config", DEFAULT, "--deepspeed_config", written("zero.json", '{"zero_optimization": %s}' % value))
        expect("deprecated use zero_optimization: {stage: %d} instead" % stage in done.stderr, done.stdout, done.stderr)
        # Without another file it lies over default.yaml, as in training.
        done = succeeds("config", "check", "--deepspeed_config", path("zero.json"))


@check
def auto_by_set_keeps_the_files_values():
    base = written("base.yaml", "optimizer: {type: Adam, params: {lr: 0.005}}\ngradient_clipping: 3\nsteps_per_print: 7\n"
                   "zero_optimization: {stage: 2}\ntrain_batch_size: 8\ngradient_accumulation_steps: 4\n")
    said = {"optimizer.params.lr": "0.005", "gradient_clipping": "3", "steps_per_print": "7", "zero_optimization.stage": "2"}
    found = shown("--config", base, *(word for key in said for word in ("--set", key + "=auto")))
    expect_equal({key: found[key] for key in said}, said)
    expect("gradient_accumulation_steps" not in shown("--config", base, "--set", "gradient_accumulation_steps=auto"),
           "it follows from the batch")


@check
def no_steps_of_warming_up_are_no_warm_up():
    rates = {"scheduler.params.warmup_max_lr": 0.01, "scheduler.params.warmup_num_steps": 0}
    for kind in ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR"):
        sets = {**FEW, "data.path": few(), "train.max_steps": 3, "scheduler.type": kind, **rates, "optimizer.params.lr": 0.01}
        if kind == "WarmupCosineLR":
            del sets["scheduler.params.warmup_max_lr"]
        train(path("cold"), sets, "--reset")
        expect_equal(records(path("cold"), "step")[0]["lr"], 0.01, kind)


@check
def keys_of_official_examples_are_taken():
    zero = '"zero_optimization": {"stage": 2, "reduce_bucket_size": 0, "allgather_bucket_size": 0}'
    file = written("official.json", '{%s, "train_batch_size": 16, "cuda_visible_devices": 0, %s}' % (ADAM, zero))
    done = succeeds("config", "check", file)
    for key in ("cuda_visible_devices", "zero_optimization.reduce_bucket_size 0", "zero_optimization.allgather_bucket_size 0"):
        expect(key in done.stderr, key, done.stderr)
    few_steps = {**FEW, "data.path": few(), "train.max_steps": 3, "zero_optimization.stage": 2}
    train(path("sized"), few_steps, ranks=Ranks(2))
    train(path("zero-sized"), {**few_steps, "zero_optimization.reduce_bucket_size": 0}, ranks=Ranks(2))
    expect_equal(weights_sha256(path("zero-sized", "last.bin")), weights_sha256(path("sized", "last.bin")))


@check
def the_schema_accepts_what_the_program_does():
    schema = json.loads(run("config", "schema").stdout)
    for name, text in DEEPSPEED.items():
        fates, _ = imported(path(name + ".json") if os.path.exists(path(name + ".json")) else written(name + ".json", text))
        found = problems(schema, tree_of(text))
        # Whether a type takes a key that another refuses is the program's; what it refuses, the schema may not see.
        if all(fate != "refused" for fate, _, _ in fates.values()):
            expect_equal(found, [], name)
    for tree, part in [({"train_batch_sise": 4}, "train_batch_sise"), ({"seed": "x"}, "seed"), ({"seed": -1}, "seed"),
                       ({"train": {"epoch": 3}}, "epoch"), ({"amp": {"enabled": True}}, "amp"),
                       ({"optimizer": {"type": "SGD", "params": {"betas": [0.9, 0.9]}}}, "betas"),
                       ({"optimizer": {"type": "Adma"}}, "type"), ({"compression_training": {"a": 1}}, "compression_training"),
                       ({"compression_training": {"a": {"b": {"enabled": True}}}}, "compression_training"),
                       ({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "quick"}}}, "warmup_type"),
                       ({"model": {"name": "cnn", "width": 3}}, "width"), ({"compat": ["first"]}, "compat"),
                       ({"data": {"augment": [{"flop": {}}]}}, "augment"), ({"device": "cuda:x"}, "device"),
                       ({"zero_optimization": {"stage": 4}}, "stage")]:
        expect(any(part in problem for problem in problems(schema, tree)), tree, problems(schema, tree))
    for tree in ({"_note": 1}, {"optimizer": {"type": "ADAM", "params": {"x-why": 1, "lr": "auto"}}}, {"device": "cuda:3"},
                 {"model": {"name": "resnet18", "width": 3}}, {"compat": "seed"}, {"compat": ["adam_t"]},
                 {"data": {"augment": ["flip", {"random_crop": {"padding": 2}}]}}, {"train": None},
                 {"compression_training": {"a": {"b": {"enabled": False, "c": 1}}}}, {"zero_optimization": True}, {"bfloat16": {"enabled": True}}, {"optimizer": {"groups": [{"pattern": "a"}]}}):
        expect_equal(problems(schema, tree), [], tree)


main()
