"""Bad input: one line of error that names the cause, the exit code of its kind, and no loss on disk."""
import os
import sys

os.environ.setdefault("TMPDIR", "/tmp")  # not in /dev/shm, which some checks replace
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SETTINGS = {**FEW, "train.epochs": 10, "train.max_steps": 12, "train.save_interval": 5, "train.eval_interval": 5}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


def refused(code, culprits, output, sets, *words, ranks=Ranks(1), config=DEFAULT, **options):
    """A train run that must fail. It leaves no folder unless it had started. Returns the error line."""
    there = os.path.exists(output)
    done = finish(start(ranks.words(*train_words(output, sets, *words, config=config)), **options))
    line = fails(code, done, *culprits)
    expect(there or code == DIVERGED or not os.path.exists(output), "a refused run left " + output)
    return line


@functools.lru_cache(None)
def whole():
    train(path("whole"), settings())
    return path("whole")


def copy_of_whole(name):
    shutil.copytree(whole(), path(name))
    return path(name)


def files(folder):
    return {name: digest for name, digest in snapshot(folder).items() if name != ".lock"}


# ---- data

DATA_SETTINGS = {"data.dataset": "synthetic", "train.max_steps": 2}


def with_damaged(name, file, damage):
    """data.path of a copy of the synthetic set, in which one file is a damaged copy and the others are links."""
    folder = path(name, "synthetic-10-batches-bin")
    shutil.copytree(os.path.join(synthetic(), "synthetic-10-batches-bin"), folder, copy_function=os.link)
    victim = os.path.join(folder, file)
    os.remove(victim)
    shutil.copy(os.path.join(synthetic(), "synthetic-10-batches-bin", file), victim)
    damage(victim)
    return path(name)


def write_at(offset, content):
    def damage(victim):
        with open(victim, "r+b") as file:
            file.seek(offset)
            file.write(content)
    return damage


@check
def damaged_data_files():
    """cifar_set_test.cpp tests every kind of damage."""
    cases = [("missing", "data_batch_3.bin", os.remove, "data_batch_3.bin"),
             ("truncated", "data_batch_2.bin", lambda v: os.truncate(v, RECORD * 5000 + 7), "truncated"),
             ("label-test", "test_batch.bin", write_at(RECORD * 9999, b"\xff"), "record 9999 has label 255")]
    for name, file, damage, problem in cases:
        data = with_damaged("data-" + name, file, damage)
        others = [Ranks(2), *([Ranks(2, mpi=True)] if has_mpi() else [])] if name == "truncated" else []
        for ranks in [Ranks(1), *others]:
            refused(DATA, [file, problem] if problem != file else [file], path("out-" + name),
                    {**DATA_SETTINGS, "data.path": data}, ranks=ranks)
        if file == "test_batch.bin":
            fails(DATA, run("eval", "--ckpt", os.path.join(trained_on_synthetic(), "best.bin"), "--data", data), file)
        shutil.rmtree(data)


@functools.lru_cache(None)
def trained_on_synthetic():
    train(path("on-synthetic"), {**DATA_SETTINGS, "data.path": synthetic()})
    return path("on-synthetic")


@check
def mislabelled_data_folders():
    nothing = path("no-data")
    os.makedirs(nothing)
    refused(DATA, ["cifar-10-batches-bin"], path("out-x"), {"data.dataset": "cifar10", "data.path": nothing})
    # The synthetic set under CIFAR-10's name.
    os.symlink(os.path.join(synthetic(), "synthetic-10-batches-bin"), os.path.join(nothing, "cifar-10-batches-bin"))
    refused(DATA, ["synthetic"], path("out-x"), {"data.dataset": "cifar10", "data.path": nothing})
    with open(path("a-file"), "w") as file:
        file.write("not data")
    refused(DATA, ["a-file", "not a folder"], path("out-x"), {"data.path": path("a-file")})


@check
def a_damaged_label_may_be_skipped_in_evaluation():
    data = with_damaged("data-eval", "test_batch.bin", lambda file: None)
    train(path("out-eval"), {**DATA_SETTINGS, "data.path": data})
    write_at(RECORD * 5, b"\x63")(os.path.join(data, "synthetic-10-batches-bin", "test_batch.bin"))
    fails(DATA, run("eval", "--ckpt", path("out-eval")), "test_batch.bin", "--on-corrupt skip")
    done = succeeds("eval", "--ckpt", path("out-eval"), "--on-corrupt", "skip", "--json")
    expect_equal(json.loads(done.stdout)["left_out"], 1, done.stdout)


@check
def a_damaged_label_may_be_skipped():
    data = with_damaged("data-skip", "data_batch_1.bin", write_at(RECORD * 5, b"\x63"))
    train(path("out-skip"), {**DATA_SETTINGS, "data.path": data, "data.on_corrupt": "skip"})


@check
def data_that_vanished_before_eval():
    shutil.copytree(few(), path("gone"))
    train(path("out-gone"), settings(data__path=path("gone")))
    shutil.rmtree(path("gone"))
    fails(DATA, run("eval", "--ckpt", path("out-gone", "best.bin")), "cifar-10-batches-bin")


# ---- configuration

def written(name, text):
    with open(path(name), "w") as file:
        file.write(text)
    return path(name)


@check
def wrong_keys():
    good = "optimizer: {type: SGD, params: {lr: 0.1}}\n"
    for name, text, culprits in [
            ("unknown.yaml", good + "train:\n  epohcs: 3\n", ["unknown.yaml:3:3", "epohcs", "train.epochs"]),
            ("unknown.json", '{"optimizer": {"type": "SGD"},\n "train_batchsize": 4}',
             ["unknown.json:2:2", "train_batchsize", "train_batch_size"]),
            ("transposed.yaml", good + "trian:\n  epochs: 3\n", ["transposed.yaml:2:1", "'trian'", "did you mean 'train'"]),
            ("duplicate.yaml", good + "seed: 1\nseed: 2\n", ["duplicate.yaml:3:1", "seed"]),
            ("duplicate.json", '{"optimizer": {"type": "SGD"},\n"seed": 1,\n"seed": 2}', ["duplicate.json:3:1", "seed"]),
            ("mistyped.yaml", good + "train: {epochs: many}\n", ["mistyped.yaml:2:17", "train.epochs", "many"]),
            ("choice.yaml", good + "model: {name: cnm}\n", ["choice.yaml:2:15", "model.name", "did you mean cnn"]),
            ("range.yaml", good + "data: {validation: -1}\n", ["range.yaml:2:20", "data.validation"]),
            ("no-optimizer.yaml", "seed: 1\n", ["optimizer"]),
            ("broken.yaml", "seed: [1\n", ["broken.yaml"]),
            ("broken.json", '{"seed": 1', ["broken.json"]),
            ("empty.yaml", "", ["empty.yaml"]), ("binary.yaml", "\x00\x01\x02", ["binary.yaml"])]:
        config = written(name, text)
        for ranks in [Ranks(1)] + ([Ranks(2, mpi=True)] if name == "unknown.yaml" and has_mpi() else []):
            refused(USAGE, culprits, path("out-config"), {}, config=config, ranks=ranks)
    for words, culprits in [(["--set", "trian.epochs=1"], ["trian.epochs", "--set"]),
                            (["--set", "train.epochs=1.5"], ["train.epochs", "1.5"]),
                            (["--set", "train.epochs"], ["--set"]),
                            (["--config", "nowhere.yaml"], ["nowhere.yaml"]),
                            (["--nonsense"], ["--nonsense"]),
                            (["--ranks", "zero"], ["--ranks"]), (["--resume", "perhaps"], ["--resume"])]:
        fails(USAGE, run("train", *([] if "--config" in words else ["--config", DEFAULT]), *words), *culprits)
    fails(USAGE, run("trian"), "trian")
    for verb in ["eval", "ckpt"]:
        fails(USAGE, run("--config", DEFAULT, verb, "ls"), verb + " is ", "first: cifar-train " + verb)
    fails(USAGE, run("--config", DEFAULT, "ls"), "'ls' and --config")
    expect(not os.path.exists(path("out-config")), "a refused configuration left an output folder")


@check
def keys_of_other_programs_get_suggestions():
    for key, ours in [("train_micro_batch_size", "train_micro_batch_size_per_gpu"), ("max_grad_norm", "gradient_clipping"),
                      ("learning_rate", "optimizer.params.lr"), ("micro_batch_per_gpu", "train_micro_batch_size_per_gpu"),
                      ("warmup_steps", "scheduler.params.warmup_num_steps"), ("max_steps", "train.max_steps"),
                      ("num_epochs", "train.epochs"), ("Train_Batch_Size", "train_batch_size"), ("model_name", "model.name"),
                      ("grad_accum_steps", "gradient_accumulation_steps"), ("output_dir", "output")]:
        fails(USAGE, run("config", "check", written("theirs.json", '{"%s": 1}' % key)),
              "theirs.json:1:2: unknown key '%s'; did you mean '%s'?" % (key, ours))


@check
def python_literals_get_json_suggestions():
    for value, ours in [("True", "true"), ("False", "false"), ("TRUE", "true"), ("'True'", "true, without quotes"),
                        ('"false"', "false, without quotes")]:
        fails(USAGE, run("config", "check", written("python.json", '{"fp16": {"enabled": %s}}' % value)), "python.json:1:",
              "did you mean %s" % ours)
    fails(USAGE, run("config", "check", written("python.json", '{"gradient_clipping": None}')),
          "'None', which is Python's: leave the key out")
    for value, ours in [(".5", "0.5"), ("+1", "1"), ("'1e-3'", "0.001, without quotes")]:
        fails(USAGE, run("config", "check", written("python.json", '{"gradient_clipping": %s}' % value)), "did you mean " + ours)
    for value in ["NaN", "-Infinity", "inf", "1e1_0"]:
        fails(USAGE, run("config", "check", written("python.json", '{"gradient_clipping": %s}' % value)), value,
              "is not a JSON number")
    good = written("python.json", """{'optimizer': {'type': 'SGD', 'params': {'lr': 0.1}}, 'train_batch_size': 8}""")
    expect_equal(run("config", "check", good).returncode, DONE)


@check
def a_refused_block_is_named_without_its_content():
    long = json.dumps({"weight_quantization": {"group-%d" % i: {"enabled": True} for i in range(100)}})
    for key, value in [("compression_training", long), ("sparse_attention", long), ("elasticity", '{"micro_batch_sizes": [%s0]}' % ("7, " * 500))]:
        line = fails(USAGE, run("config", "check", written("long.json", '{"optimizer": {"type": "SGD"}, "%s": %s}' % (key, value))),
                     "long.json:1:", key)
        expect(len(line) < 300, len(line), line)


@check
def a_warning_names_its_file_once():
    old = written("old.json", '{"optimizer": {"type": "SGD"}, "train_batch_size": 4, "zero_optimization": true}')
    done = succeeds("config", "check", old)
    line, = [line for line in done.stderr.splitlines() if "zero_optimization" in line]
    expect_equal(line.count("old.json"), 1, line)


@check
def batches_that_do_not_divide():
    tutorial = os.path.join(CONFIGS, "tutorial.yaml")
    for config, ranks, culprits in [(DEFAULT, Ranks(3), ["3 ranks", "1, 2 or 4"]), (tutorial, Ranks(2), ["2 ranks", "1"])]:
        refused(USAGE, culprits, path("out-batch"), {}, config=config, ranks=ranks)
        if has_mpi():
            refused(USAGE, culprits, path("out-batch"), {}, config=config, ranks=Ranks(ranks.number, mpi=True))
    refused(USAGE, ["train_batch_size", "18"], path("out-batch"), {"train_batch_size": 18})
    refused(USAGE, ["gradient_acc_step", "16 != 4 * 3 * 1"], path("out-batch"), {"gradient_accumulation_steps": 3})
    refused(USAGE, ["train_batch_size", "800", "400"], path("out-batch"), settings(train_batch_size=800))
    refused(USAGE, ["data.validation"], path("out-batch"), settings(data__validation=400))


@check
def unimplemented_features_are_refused_by_name():
    nvme = {"zero_optimization.offload_optimizer.device": "nvme"}
    for sets, name in [(nvme, "nvme"), ({"zero_optimization.offload_param.device": "nvme"}, "offload_param"),
                       ({"fp16.enabled": True}, "fp16"), ({"device": "cuda"}, "cuda"), ({"device": "cuda:1"}, "cuda"),
                       ({"optimizer.type": "MuAdam"}, "MuAdam"),
                       ({"scheduler.type": "CyclicLR"}, "CyclicLR"), ({"communication.backend": "nccl"}, "nccl"),
                       ({"cpu.threads": 2}, "cpu.threads"),
                       ({"data.augment": "[random_erasing]"}, "random_erasing"), ({"sparse_gradients": True}, "sparse_gradients")]:
        refused(USAGE, [name], path("out-later"), sets)
    for words, name in [(["--device", "cuda"], "cuda"), (["--with_cuda"], "cuda"),
                        (["--dtype", "fp16"], "fp16"), (["--backend", "nccl"], "nccl")]:
        fails(USAGE, run("train", "--config", DEFAULT, "--output", path("out-later"), *words), name)
    for verb in ["predict", "completion"]:
        fails(USAGE, run(verb, "x"), verb)
    fails(USAGE, run("export", "--ckpt", "x", "--out", "y", "--format", "gguf"), "gguf")
    fails(USAGE, run("export", "--ckpt", "x", "--out", "m.PTH"), "m.PTH", "model.safetensors")
    expect(not os.path.exists(path("out-later")), "a refused run left an output folder")


WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def verbs_without_training(config, *sets):
    """{verb: words} of the verbs that read a configuration and do not train."""
    words = ["--config", config, *[word for one in sets for word in ("--set", one)]]
    return {"check": ["config", "check", *words, "--ranks", 2],
            "jobscript": ["jobscript", "--scheduler", "slurm", "--time", "1h", "--ranks-per-node", 2, *words],
            "estimate": ["estimate", *words, "--ranks", 2],
            "sweep": ["sweep", "--repeats", 2, "--output", path("never-swept"), "--ranks", 2, *words],
            "array": ["sweep", "--repeats", 2, "--output", path("never-swept"), "--ranks", 2, "--jobscript", "slurm",
                      "--time", "1h", *words]}


@check
def contradictory_keys_are_refused_by_every_verb():
    mixing = ["data.augment=[mixup]", "train_micro_batch_size_per_gpu=1", "train_batch_size=2"]
    for sets, culprit in [(["device=cpu", "fp16.enabled=true"], "fp16.enabled: a CPU does not compute in fp16"),
                          (["device=cpu", "communication.backend=nccl"], "communication.backend: nccl connects GPUs"),
                          (["train_batch_size=20"], "train_batch_size is not equal to"), (mixing, "mixes images"),
                          (["train.epoch=1"], "unknown key 'train.epoch'")]:
        by_train = fails(USAGE, run("train", *verbs_without_training(DEFAULT, *sets)["estimate"][1:]), culprit)
        for verb, words in verbs_without_training(DEFAULT, *sets).items():
            line = fails(USAGE, run(*words), culprit)
            expect(by_train.removeprefix("error: ") in line, verb, line, by_train)
    fails(USAGE, run("sweep", "--config", DEFAULT, "--device", "cpu", "--grid", "fp16.enabled=false,true", "--output",
                     path("never-swept")), "--grid fp16.enabled=true: fp16.enabled: a CPU")
    gpus = ["--gpus-per-node", 1, "--set", "device=cuda"]
    for verb in ("jobscript", "array"):
        fails(USAGE, run(*verbs_without_training(DEFAULT)[verb], *gpus), "2 ranks on 1 GPU", "share_device")
    # Whether ranks are processes is how they are started: a script's are, a sweep's are not.
    for backend, by in [("threads", "jobscript"), ("mpi", "sweep"), ("mpi", "array")]:
        fails(USAGE, run(*verbs_without_training(DEFAULT, "communication.backend=" + backend)[by]), backend)
    expect_equal(run(*verbs_without_training(DEFAULT, "communication.backend=mpi")["check"]).returncode, DONE)
    expect(not os.path.exists(path("never-swept")), "something was swept")


@check
def missing_resources_are_warned_of_and_refused_by_sweep():
    for sets, code, culprit in [(["device=cuda"], USAGE, "device: cuda"), (["fp16.enabled=true"], USAGE, "fp16.enabled: "),
                                (["data.path=" + path("nowhere")], DATA, path("nowhere"))]:
        for verb, words in verbs_without_training(DEFAULT, *sets).items():
            done = run(*words, env=WITHOUT_GPU)
            if verb == "sweep":
                fails(code, done, culprit)
            else:
                expect_equal(done.returncode, DONE, verb, done.stderr)
                told = [line for line in done.stderr.splitlines() if "on this host a run would be refused: " in line]
                expect(len(told) == 1 and culprit in told[0], verb, done.stderr)
    expect(not os.path.exists(path("never-swept")), "something was swept")


# ---- checkpoints

def edit_manifest(checkpoint, change):
    """Changes the manifest's JSON and updates its checksum."""
    manifest = os.path.join(checkpoint, "manifest.json")
    with open(manifest) as file:
        content = json.load(file)
    content.pop("manifest_crc32c")
    change(content)
    opening, rest = '{"manifest_crc32c":"', '",' + json.dumps(content)[1:]
    with open(manifest, "w") as file:
        file.write(opening + "%08x" % crc32c((opening + "00000000" + rest).encode()) + rest)


@check
def damaged_checkpoints_fall_back_or_are_refused():
    def newer(checkpoint):
        edit_manifest(checkpoint, lambda m: m.update(version=99))

    def cut(name):
        return lambda c: os.truncate(os.path.join(c, name), os.path.getsize(os.path.join(c, name)) // 2)

    def flipped(name, at):
        return lambda c: flip(os.path.join(c, name), at)

    for name, damage, culprit in [
            ("cut weights", cut("weights.safetensors"), "weights.safetensors"),
            ("cut optimizer", cut("optim-00-of-01.safetensors"), "optim-00-of-01.safetensors"),
            ("cut manifest", cut("manifest.json"), "manifest.json"),
            ("flipped weight", flipped("weights.safetensors", -50), "fc3.weight"),
            ("flipped header", flipped("weights.safetensors", 40), "weights.safetensors"),
            ("flipped moment", flipped("optim-00-of-01.safetensors", -50), "optim-00-of-01.safetensors"),
            ("flipped state", flipped("state.json", 30), "state.json"),
            ("flipped manifest", flipped("manifest.json", 60), "manifest.json"),
            ("missing state", lambda c: os.remove(os.path.join(c, "state.json")), "state.json"),
            ("newer version", newer, "99")]:
        output = copy_of_whole("damaged")
        steps = checkpoints(output)
        expect_equal(steps, [5, 10, 12])
        damage(os.path.join(output, "ckpt", "step-00000012"))
        done = train(output, settings())
        expect(any(line.startswith("warning: ") and culprit in line for line in done.stderr.splitlines()), name, done.stderr)
        expect_same_result(output, result(whole()), name)
        # The same when there is no other: refused, and nothing is touched.
        shutil.rmtree(output)
        copy_of_whole("damaged")
        for step in steps[:-1]:
            shutil.rmtree(os.path.join(output, "ckpt", "step-%08d" % step))
        damage(os.path.join(output, "ckpt", "step-00000012"))
        before = files(output)
        refused(CHECKPOINT, ["none of the 1 checkpoints", "step-00000012"], output, settings())
        fails(CHECKPOINT, run("ckpt", "verify", os.path.join(output, "ckpt", "step-00000012")), culprit)
        expect_equal(files(output), before, name)
        shutil.rmtree(output)
    # What is sound, but no weights.
    moments = os.path.join(whole(), "ckpt", "step-00000012", "optim-00-of-01.safetensors")
    fails(CHECKPOINT, run("export", "--ckpt", moments, "--out", path("moments.safetensors")), "optimizer state")
    expect(not os.path.exists(path("moments.safetensors")))
    # The instrument itself: a manifest edited without harm is accepted.
    output = copy_of_whole("damaged")
    edit_manifest(os.path.join(output, "ckpt", "step-00000012"), lambda m: None)
    expect_equal(run("ckpt", "verify", output).returncode, DONE)


@check
def weights_of_another_model_or_damaged():
    train(path("linear"), settings(model__name="linear"))
    linear = path("linear", "best.bin")
    for dry in [], ["--dry-run"]:  # told before the run, too
        refused(CHECKPOINT, ["linear"], path("out-init"), settings(), "--init", linear, *dry)
        refused(USAGE, ["nowhere.bin"], path("out-init"), settings(), "--init", path("nowhere.bin"), *dry)
    output = copy_of_whole("other-model")
    shutil.rmtree(os.path.join(output, "ckpt"))
    shutil.copytree(path("linear", "ckpt"), os.path.join(output, "ckpt"))
    before = files(output)
    refused(CHECKPOINT, ["linear", "cnn"], output, settings())
    expect_equal(files(output), before)
    for name, damage in [("cut.bin", lambda f: os.truncate(f, os.path.getsize(f) // 2)), ("flipped.bin", lambda f: flip(f, -9)),
                         ("header.bin", lambda f: flip(f, 3)), ("empty.bin", lambda f: os.truncate(f, 0))]:
        shutil.copy(os.path.join(whole(), "best.bin"), path(name))
        damage(path(name))
        fails(CHECKPOINT, run("eval", "--ckpt", path(name)), name)
        fails(CHECKPOINT, run("export", "--ckpt", path(name), "--out", path("never.safetensors")), name)
        refused(CHECKPOINT, [name], path("out-init"), settings(), "--init", path(name))
    fails(USAGE, run("eval", "--ckpt", path("nowhere.bin")), "nowhere.bin")
    config = train_words(path("never"), settings())[:2]
    for code, file in (USAGE, path("nowhere.bin")), (CHECKPOINT, linear), (CHECKPOINT, path("cut.bin")):
        fails(code, run("estimate", *config, "--data", few(), "--set", "data.on_corrupt=skip", "--init", file), os.path.basename(file))
    expect(not os.path.exists(path("never.safetensors")), "a damaged file was exported")


# ---- the output folder

@check
def a_refused_run_leaves_no_folder_behind():
    """Nor its new parent folders. An existing folder and its contents stay."""
    for ranks in [Ranks(1), Ranks(2)] + ([Ranks(2, mpi=True)] if has_mpi() else []):
        for code, words in (USAGE, ["--init", path("nowhere.bin")]), (CHECKPOINT, ["--resume", "must"]), (CHECKPOINT, ["--resume", path()]):
            refused(code, [words[1]] if words[1] != "must" else ["--resume must"], path("above", "nested/"), settings(),
                    *words, ranks=ranks)
            expect(not os.path.exists(path("above")), words, ranks)
    os.makedirs(path("above", "there"))
    refused(USAGE, ["nowhere.bin"], path("above", "there"), settings(), "--init", path("nowhere.bin"))
    expect(os.path.isdir(path("above", "there")), "an empty folder of somebody's was removed")
    written("above/note", "mine")
    refused(USAGE, ["nowhere.bin"], path("above", "new"), settings(), "--init", path("nowhere.bin"))
    expect_equal(sorted(os.listdir(path("above"))), ["note", "there"])


@check
def output_in_use():
    output = path("in-use")
    job = start(Ranks(1).words(*train_words(output, settings(train__max_steps=10 ** 6, train__epochs=10 ** 6))))
    try:
        wait_until(lambda: os.path.exists(os.path.join(output, "metrics.jsonl")), job)
        for ranks, words in [(Ranks(1), []), (Ranks(1), ["--reset"]), (Ranks(2), ["--resume", "never"])] + (
                [(Ranks(2, mpi=True), [])] if has_mpi() else []):
            refused(USAGE, [output, "pid %d" % job.pid, os.uname().nodename], output, settings(), *words, ranks=ranks)
        # A look at it is allowed meanwhile.
        looked = run("ckpt", "ls", output)
        expect_equal(looked.returncode, DONE, looked.stderr)
    finally:
        os.kill(job.pid, signal.SIGUSR1)
        done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)
    expect_equal(len(records(output, "start")), 1)


@check
def output_that_cannot_be():
    refused(USAGE, ["a-plain-file"], written("a-plain-file", ""), settings())
    refused(IO, ["/proc/nowhere"], "/proc/nowhere", settings())


class Mounts:
    """A process with its own mounts, for jobs on a full or small file system."""

    def __init__(self, **sizes):
        mounts = " && ".join("mount -t tmpfs -o size=%s tmpfs %s" % (size, folder) for folder, size in sizes.items())
        user = [] if os.geteuid() == 0 else ["-r"]
        if not (shutil.which("unshare") and shutil.which("nsenter")):
            raise Skip("there is no unshare or nsenter")
        self.holder = subprocess.Popen(["unshare", *user, "-m", "sh", "-c", mounts + " && echo ready && exec sleep 600"],
                                       text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.holder.stdout.readline() != "ready\n":
            reason = self.holder.communicate()[1].strip()
            raise Skip("mounting is not permitted here (%s)" % reason)
        self.prefix = ["nsenter", "-t", str(self.holder.pid), "-m"]
        if user:
            self.prefix += ["-U", "--preserve-credentials"]

    def inside(self, folder):
        """The folder's path from outside the mounts."""
        return "/proc/%d/root%s" % (self.holder.pid, folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.communicate()


@check
def a_disk_that_fills_while_training():
    mount = path("disk")
    os.makedirs(mount)
    sets = settings(train__max_steps=30, train__eval_interval=10, checkpoint__keep_last=50)
    few(), train(path("roomy"), sets)
    with Mounts(**{mount: "30m"}) as mounts:
        output, ballast = os.path.join(mount, "run"), mounts.inside(os.path.join(mount, "ballast"))
        with open(ballast, "wb") as file:  # leaves room for three checkpoints, not for six
            file.write(bytes(27 << 20))
        for ranks in [Ranks(1)] + ([Ranks(2, mpi=True)] if has_mpi() else []):
            job = start(ranks.words(*train_words(output, sets)), prefix=mounts.prefix)
            done = finish(job)
            fails(IO, done, "No space left", output)
            warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: no checkpoint was saved")]
            expect(warnings, done.stderr)
            expect("at step 25" in warnings[-1], "training did not go on", done.stderr)
            saved = checkpoints(mounts.inside(output))
            expect(len(saved) >= 2, saved)
            copies = [name for name in os.listdir(mounts.inside(os.path.join(output, "ckpt"))) if name.startswith("best-")]
            expect(all(int(name[5:-4]) in saved for name in copies), "left of failed saves:", copies, saved)
            expect_equal(finish(start([PROGRAM, "ckpt", "verify", output], prefix=mounts.prefix)).returncode, DONE)
        # With room again, it continues to the same end.
        os.remove(ballast)
        done = finish(start(Ranks(1).words(*train_words(output, sets)), prefix=mounts.prefix))
        expect_equal(done.returncode, DONE, done.stderr)
        expect_same_result(mounts.inside(output), result(path("roomy")))


@check
def records_wait_for_room_on_the_disk():
    """The disk is full while training: neither checkpoints nor records can be written; then space is freed."""
    mount = path("full-disk")
    os.makedirs(mount)
    few()
    with Mounts(**{mount: "100m"}) as mounts:
        output = os.path.join(mount, "run")
        sets = settings(train__max_steps=10 ** 6, train__epochs=10 ** 6, train__save_interval=10 ** 6,
                        train__eval_interval=10 ** 6)
        job = start(Ranks(1).words(*train_words(output, sets)), prefix=mounts.prefix)
        inside, ballast = mounts.inside(output), mounts.inside(os.path.join(mount, "ballast"))
        wait_until(lambda: os.path.isdir(os.path.join(inside, "ckpt", "step-00000000")), job)
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        time.sleep(0.5)
        expect(job.poll() is None, "a full disk ended the training")
        with open(os.path.join(inside, "metrics.jsonl")) as lines:
            reached = json.loads(lines.read().split("\n")[-2])["step"]
        os.remove(ballast)
        time.sleep(0.2)
        os.kill(job.pid, signal.SIGUSR1)
        done = finish(job)
        expect_equal(done.returncode, STOPPED, done.stderr)
        expect_equal(done.stderr.count("warning: records wait"), 1, done.stderr)
        steps = [r["step"] for r in records(inside, "step")]
        expect(steps[-1] > reached, "nothing was recorded after the disk was full")
        expect_equal(steps, list(range(1, steps[-1] + 1)), "records are missing")


@check
def a_disk_that_is_full_from_the_start():
    mount = path("tiny-disk")
    os.makedirs(mount)
    few()
    with Mounts(**{mount: "200k"}) as mounts:
        done = finish(start(Ranks(1).words(*train_words(os.path.join(mount, "run"), settings())), prefix=mounts.prefix))
        fails(IO, done, "No space left", mount)
        whole()
        out = os.path.join(mount, "exported.safetensors")
        fails(IO, finish(start([PROGRAM, "export", "--ckpt", os.path.join(whole(), "best.bin"), "--out", out],
                               prefix=mounts.prefix)), "No space left", "exported.safetensors")
        expect(not os.path.exists(mounts.inside(out)), "half a file was left")


# ---- machines and launchers

@check
def a_small_dev_shm():
    need_mpi()
    few(), whole()
    alone = {"OMPI_MCA_btl_vader_backing_directory": None}  # as a user has it
    with Mounts(**{"/dev/shm": "64k"}) as mounts:
        done = finish(start(Ranks(2, mpi=True).words(*train_words(path("shm"), settings())), prefix=mounts.prefix, env=alone))
        expect_equal(done.returncode, DONE, done.stderr)
        expect("error:" not in done.stderr, done.stderr)
    expect_same_result(path("shm"), result(whole()))
    small = path("small-tmp")
    os.makedirs(small)
    with Mounts(**{"/dev/shm": "64k", small: "64k"}) as mounts:
        done = finish(start(Ranks(2, mpi=True).words(*train_words(path("shm-2"), settings())), prefix=mounts.prefix,
                            env={"TMPDIR": small}))
        fails(MEMORY, done, "/dev/shm", "TMPDIR")


@check
def worlds_of_one():
    need_mpi()
    waiting = [start([PROGRAM, *train_words(path("worlds"), settings())], env=variables) for variables in [
        {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},
        {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}]]
    for variables in [{"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, {"PMI_SIZE": "2", "PMI_RANK": "0"},
                      {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}]:
        done = finish(start([PROGRAM, *train_words(path("worlds"), settings())], env=variables))
        fails(USAGE, done, "2 processes")
        expect(not os.path.exists(path("worlds")), "it trained")
    fails(USAGE, run("train", "--config", DEFAULT, env={"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "7"}), "OMPI_COMM_WORLD_RANK")
    # Ranks twice.
    done = finish(start(["mpirun", "-np", "2", PROGRAM, *train_words(path("worlds"), settings()), "--ranks", "2"]))
    fails(USAGE, done, "--ranks 2")
    # Only rank 0 speaks, unless its silence shows that it has nothing to say.
    silent, alone = [finish(job) for job in waiting]
    expect_equal((silent.returncode, silent.stderr), (USAGE, ""))
    fails(USAGE, alone, "rank 1 on host")


@check
def one_process_inside_a_batch_script():
    batch = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_PROCID": "0",
             "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "node1", "SLURM_NNODES": "1"}
    best = os.path.join(trained_on_synthetic(), "best.bin")
    done = succeeds("eval", "--ckpt", best, "--json", env=batch)
    expect_equal(done.stdout, run("eval", "--ckpt", best, "--json").stdout)
    train(path("in-batch"), settings(), env=batch)
    expect_same_result(path("in-batch"), result(whole()))


# ---- a loss that is not finite

@check
def divergence():
    """WarmupLR's rate is 0 in the first two steps, then 1e29: the first evaluation is good."""
    wild = settings(scheduler__params__warmup_max_lr=1e30, train__save_interval=1, train__eval_interval=1,
                    gradient_clipping=0, train__log_interval=1)
    for split, all_ranks in [("last", [Ranks(1)]), ("test", [Ranks(2)] + ([Ranks(2, mpi=True)] if has_mpi() else []))]:
        for ranks in all_ranks:
            output = path("wild-%s-%s" % (split, repr(ranks).replace(" ", "")))
            refused(DIVERGED, ["step", "lr"], output, {**wild, "train.best.split": split}, ranks=ranks)
            expect_equal(run("ckpt", "verify", output).returncode, DONE)
            finite = [r["step"] for r in records(output, "eval") if r["loss"] is not None]
            expect(finite and finite[-1] in checkpoints(output), "the last good checkpoint is gone", checkpoints(output))
            well = [r["step"] for r in records(output, "step") if r["skipped"] == 0][-1]
            expect_equal(checkpoints(output)[-1], well, "a checkpoint of a skipped step")
            _, metadata = safetensors(os.path.join(output, "best.bin"))
            expect(int(metadata["cifar_train.step"]) in finite, "best.bin is of step %s" % metadata["cifar_train.step"])
            skipped = [r["skipped"] for r in records(output, "step")]
            expect_equal(skipped[-3:], [1, 2, 3], skipped)
            # Again: it continues from the last good checkpoint, and diverges again in the same step.
            before = records(output, "step")[-1]["step"]
            refused(DIVERGED, ["step %d" % before], output, {**wild, "train.best.split": split}, ranks=ranks)
    # Less than max_bad_steps in a row, a stop between, and all goes on; but what it ends with is no network.
    patient = {**wild, "train.max_bad_steps": 100}
    for name, ranks, stops in [("bad-whole", Ranks(1), [12]), ("bad", Ranks(2), [4, 6, 12])]:
        for k in stops:
            refused(DIVERGED, ["the weights of the end give no finite loss on the test split"], path(name),
                    {**patient, "train.max_steps": k}, ranks=ranks)
    expect_equal(*[run("ckpt", "inspect", path(name), "--hash").stdout.splitlines()[-1] for name in ("bad", "bad-whole")])


main()
