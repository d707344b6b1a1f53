"""config, data, ckpt, doctor, selftest and bench through the program: good and bad input, exit codes, one line of
error. Where the build has the program whose GPUs are the host's stand-in, they look at those too."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ.get("CIFAR_TRAIN", "")
ON_HOST = os.path.join(os.path.dirname(PROGRAM), "cifar-train-on-host")  # its --device cuda computes on the host
CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "configs")
DONE, USAGE, DATA, CHECKPOINT = 0, 2, 3, 5


def run(*words, program=PROGRAM, **environment):
    """The program's words; None takes a variable out of its environment."""
    variables = {**os.environ, **environment}
    return subprocess.run([program, *map(str, words)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, env={k: v for k, v in variables.items() if v is not None})


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


class Verbs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ct-verbs-")
        cls.data = os.path.join(cls.folder, "data")
        cls.run_folder = os.path.join(cls.folder, "run")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def good(self, *words, **environment):
        done = run(*words, **environment)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertNotIn("error:", done.stderr)
        return done.stdout

    def bad(self, code, culprit, *words, **environment):
        """Fails with `code` and one line of error, which names the culprit. Returns what was printed."""
        done = run(*words, **environment)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(culprit, errors[0])
        return done.stdout

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def copy(self, source, name):
        path = os.path.join(self.folder, name)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, path)
        return path

    def synthetic(self):
        """The synthetic set, written once."""
        self.good("data", "synth", "--out", self.data)
        return os.path.join(self.data, "synthetic-10-batches-bin")

    def train(self, folder, ranks):
        self.synthetic()
        self.good("train", "--config", os.path.join(CONFIGS, "default.yaml"), "--output", folder, "--ranks", ranks,
                  "--set", "model.name=linear", "--set", "train.max_steps=3", "--set", "data.dataset=synthetic",
                  "--set", "data.path=" + self.data)

    def trained(self):
        """A run of three steps, trained once: checkpoints of steps 0 and 3."""
        if not os.path.isdir(self.run_folder):
            self.train(self.run_folder, ranks=1)
        return self.run_folder

    def checkpoint(self, step=3):
        return os.path.join(self.trained(), "ckpt", "step-%08d" % step)

    # ---- all families

    def test_help_lists_what_works_and_nothing_else(self):
        for verb, members in [("config", ["show", "check", "schema", "import"]),
                              ("data", ["synth", "verify", "info", "convert"]),
                              ("ckpt", ["ls", "inspect", "verify", "diff"])]:
            text = self.good(verb, "--help")
            for member in members:
                self.assertIn("  %s " % member, text)
                self.assertIn("--help", self.good(verb, member, "--help"))
            self.bad(USAGE, members[0], verb)
            self.bad(USAGE, "'nonsense'", verb, "nonsense")
            self.bad(USAGE, "--nonsense", verb, members[0], "x", "--nonsense")
        self.assertIn("--json", self.good("doctor", "--help"))

    # ---- config

    def test_config_show_names_the_origin_of_each_value_and_loads_again(self):
        text = self.good("config", "show", os.path.join(CONFIGS, "default.yaml"), "--set", "train.epochs=7",
                         "--ranks", 2)
        lines = {line.split(":")[0].strip(): line for line in text.splitlines()}
        self.assertRegex(lines["epochs"], r"epochs: 7 +# --set train\.epochs=7")
        self.assertRegex(lines["seed"], r"seed: 42 +# .*default\.yaml:2:7")
        self.assertRegex(lines["max_bad_steps"], r"max_bad_steps: 3 +# default$")
        self.assertIn("gradient_accumulation_steps: 2  (follows on 2 ranks)", text)
        again = self.good("config", "show", self.write("again.yaml", text), "--ranks", 2)
        values = [line.split(" #")[0].rstrip() for line in text.splitlines()]
        self.assertEqual([line.split(" #")[0].rstrip() for line in again.splitlines()], values)

    def test_deepspeed_json_alone_and_over_yaml(self):
        ds = self.write("ds.json", '{"train_batch_size": 32, "gradient_clipping": 0.5, "optimizer": {"type": "SGD", '
                                   '"params": {"lr": 0.1}}}')
        self.assertIn("train_batch_size: 32", self.good("config", "show", ds, "--ranks", 1))
        both = self.good("config", "show", os.path.join(CONFIGS, "default.yaml"), "--deepspeed_config", ds, "--ranks", 1)
        self.assertRegex(both, r"gradient_clipping: 0\.5 +# .*ds\.json")
        self.assertIn("train_micro_batch_size_per_gpu: 4", both)

    def test_deepspeeds_auto_is_what_follows(self):
        def ds(**changed):
            keys = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
                    "gradient_clipping": "auto", "optimizer": {"type": "Adam", "params": {
                        "lr": 0.01, "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
                    "scheduler": {"type": "WarmupLR", "params": {
                        "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
                    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto", "overlap_comm": "auto"}, **changed}
            return self.write("auto.json", json.dumps(keys))

        done = run("config", "show", ds(), "--ranks", 3)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertIn("train_batch_size: 24  (follows on 3 ranks)", done.stdout)
        self.assertRegex(done.stdout, r"warmup_max_lr: 0\.01 +# default")
        self.assertRegex(done.stdout, r"betas: \[0\.9, 0\.999\] +# default")
        self.assertNotIn("bucket_size", done.stdout)
        self.assertRegex(done.stderr, r"^warning: .*train_batch_size, .*gradient_clipping 0, ")
        plain = {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
        for changed in ({"train_micro_batch_size_per_gpu": 8, "train_batch_size": 32},
                        {"train_micro_batch_size_per_gpu": "auto", "train_batch_size": 32},
                        {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": "auto"}):
            self.assertRegex(self.good("config", "check", ds(**changed), "--ranks", 2), r"\n +2 +32 +8 +2\n")
        for changed, key in (({"train_micro_batch_size_per_gpu": "auto"}, "train_micro_batch_size_per_gpu"),
                             ({"optimizer": {"type": "auto"}}, "optimizer.type"),
                             ({"seed": "auto"}, "seed"), ({"train": {"epochs": "auto"}}, "train.epochs")):
            self.bad(USAGE, key, "config", "check", ds(**{**plain, **changed}))

    def test_config_check_prints_the_batch_sizes(self):
        for name in sorted(name for name in os.listdir(CONFIGS) if name.endswith(".yaml") or name.endswith(".json")):
            over = ["--deepspeed_config", "imagenet_ds_config.json"] if name == "imagenet_resnet50.yaml" else []
            text = self.good("config", "check", os.path.join(CONFIGS, name), *over)
            self.assertIn((over[-1] if over else name) + ": ok", text)
            self.assertEqual(len(text.splitlines()), 6, text)
        self.assertRegex(self.good("config", "check", os.path.join(CONFIGS, "default.yaml")), r"\n +4 +16 +4 +1\n")

    def test_config_check_takes_what_train_takes(self):
        default = os.path.join(CONFIGS, "default.yaml")
        text = self.good("config", "check", default, "--set", "train_batch_size=24", "--ranks", 3)
        self.assertRegex(text, r"ok\n.*\n +3 +24 +4 +2\n$")
        self.assertRegex(self.good("config", "check", "--ranks", "auto", default), r"\n +\d+ +16 +4 +\d+\n$")
        self.bad(USAGE, "default.yaml: Check batch related parameters", "config", "check", default, "--ranks", 3)
        self.bad(USAGE, "--ranks x", "config", "check", default, "--ranks", "x")
        self.bad(USAGE, "--set train.epochs=many", "config", "check", default, "--set", "train.epochs=many")

    def test_wrong_configurations(self):
        default = os.path.join(CONFIGS, "default.yaml")
        typo = self.write("typo.yaml", "optimizer: {type: SGD}\ntrain: {epoch: 1}\n")
        self.bad(USAGE, "typo.yaml:2:9: ", "config", "check", typo)
        self.bad(USAGE, "train.epochs", "config", "show", typo)
        self.bad(USAGE, "dup.yaml:2:1", "config", "check", self.write("dup.yaml", "seed: 1\nseed: 2\n"))
        self.bad(USAGE, "missing.yaml", "config", "check", "missing.yaml")
        self.bad(USAGE, "train.epochs", "config", "show", default, "--set", "train.epochs=many")
        self.bad(USAGE, "--set", "config", "show", default, "--set", "train.epochs")
        self.bad(USAGE, "3 ranks", "config", "show", default, "--ranks", 3)
        self.bad(USAGE, "--ranks", "config", "show", default, "--ranks", "x")
        uneven = self.write("uneven.yaml", "optimizer: {type: SGD}\ntrain_batch_size: 10\n"
                                           "train_micro_batch_size_per_gpu: 4\n")
        self.bad(USAGE, "uneven.yaml", "config", "check", uneven)
        self.bad(USAGE, "garbage.yaml", "config", "check", self.write("garbage.yaml", "a: [1, {\n\x01"))
        listed = self.bad(USAGE, "2 of 3", "config", "check", typo, default, uneven)
        self.assertIn("default.yaml: ok", listed)
        self.assertIn("typo.yaml:2:9", listed)

    # ---- data

    def test_the_synthetic_set_is_written_once_and_verifies(self):
        out = os.path.join(self.folder, "fresh")
        self.assertIn("synthetic-10-batches-bin: written", self.good("data", "synth", "--out", out))
        self.assertIn("was there already", self.good("data", "synth", "--out", out))
        for words in [("--data", out), ("--data", os.path.join(out, "synthetic-10-batches-bin") + "/"),
                      ("--data", out, "--dataset", "synthetic")]:
            text = self.good("data", "verify", *words)
            self.assertIn("synthetic-10 in", text)
            self.assertEqual(text.count(" 30730000 "), 6)
            self.assertEqual(text.count("  ok\n"), 6)

    def test_a_small_synthetic_set_is_the_beginning_of_the_whole_one(self):
        out = os.path.join(self.folder, "little")
        self.assertIn("written", self.good("data", "synth", "--out", out, "--images", 250))
        self.assertIn("was there already", self.good("data", "synth", "--out", out, "--images", 250))
        text = self.good("data", "verify", "--data", out)
        self.assertEqual((text.count(" 153650 "), text.count("  ok\n")), (6, 6))
        self.assertRegex(self.good("data", "info", "--data", out), r"(?s)250 images to train on, 50 to .*0  striped-disc +25 +5\n")
        folder = os.path.join(out, "synthetic-10-batches-bin")
        for name in ("data_batch_1.bin", "test_batch.bin"):
            with open(os.path.join(folder, name), "rb") as small, open(os.path.join(self.synthetic(), name), "rb") as whole:
                self.assertEqual(small.read(), whole.read(153650))
        self.good("train", "--output", os.path.join(self.folder, "little-run"), "--set", "data.path=" + out,
                  "--set", "model.name=linear", "--set", "train.epochs=1", "--ranks", 1)
        best = os.path.join(self.folder, "little-run", "best.bin")
        self.assertIn("on the 50 test images", self.good("eval", "--ckpt", best))
        self.bad(DATA, "no such folder", "eval", "--ckpt", best, "--data", out + "-elsewhere")
        self.assertTrue(json.loads(self.good("doctor", "--json", "--data", out))["data"]["ok"])
        for wrong in (0, 49, 60, 50050):
            self.bad(USAGE, "--images", "data", "synth", "--out", os.path.join(self.folder, "odd"), "--images", wrong)
        self.bad(DATA, "has 250 images", "data", "synth", "--out", out)
        os.rename(out, out + "-elsewhere")  # the whole set would be made in memory
        self.bad(DATA, "10000 test images, where the run had 50", "eval", "--ckpt", best)
        os.rename(out + "-elsewhere", out)
        flip(os.path.join(folder, "data_batch_2.bin"), 5000)
        self.bad(DATA, "data_batch_2.bin: bytes differ", "data", "verify", "--data", out)
        os.truncate(os.path.join(folder, "data_batch_1.bin"), 3073 * 7)
        self.bad(DATA, "data_batch_1.bin: truncated", "data", "verify", "--data", out)
        self.bad(DATA, "data_batch_1.bin: truncated", "data", "info", "--data", out)

    def test_data_info(self):
        self.synthetic()
        text = self.good("data", "info", "--data", self.data)
        self.assertIn("50000 images to train on, 10000 to test on", text)
        self.assertRegex(text, r"0  striped-disc +5000 +1000\n")
        self.assertRegex(text, r"mean: \[0\.\d{4}, 0\.\d{4}, 0\.\d{4}\]")
        self.assertNotIn("CIFAR", text)

    def test_damaged_data(self):
        out = os.path.join(self.folder, "damaged")
        folder = os.path.join(out, "synthetic-10-batches-bin")
        shutil.copytree(self.synthetic(), folder)
        batch = os.path.join(folder, "data_batch_3.bin")
        flip(batch, 12345678)  # a pixel
        text = self.bad(DATA, "data_batch_3.bin", "data", "verify", "--data", out)
        self.assertEqual(text.count("  ok\n"), 5)
        with open(batch, "r+b") as file:
            file.write(b"\x63")  # a label
        self.assertIn("record 0 has label 99", self.bad(DATA, "data_batch_3.bin", "data", "verify", "--data", out))
        self.bad(DATA, "data_batch_3.bin", "data", "info", "--data", out)
        os.truncate(batch, 3073 * 17 + 5)
        self.bad(DATA, "truncated", "data", "verify", "--data", out)
        self.bad(DATA, "data_batch_3.bin", "data", "info", "--data", out)
        os.remove(batch)
        os.remove(os.path.join(folder, "test_batch.bin"))
        text = self.bad(DATA, "1 more", "data", "verify", "--data", out)
        self.assertEqual(text.count("no such file"), 2)
        with open(os.path.join(folder, "batches.meta.txt"), "w") as file:
            file.write("one\n")
        self.bad(DATA, "batches.meta.txt", "data", "verify", "--data", folder)

    def test_cifar_is_compared_with_the_published_files(self):
        folder = os.path.join(self.folder, "unpublished", "cifar-10-batches-bin")
        shutil.copytree(self.synthetic(), folder, copy_function=os.link)  # without its names it is taken for CIFAR-10
        os.remove(os.path.join(folder, "batches.meta.txt"))
        text = self.good("data", "verify", "--data", folder)
        self.assertEqual(text.count("  ok\n"), 6)
        self.assertIn("no file has the sum of a published one of CIFAR-10: ", text)
        second = os.path.join(folder, "data_batch_2.bin")
        os.remove(second)
        os.link(os.path.join(folder, "data_batch_1.bin"), second)
        text = self.bad(DATA, "data_batch_2.bin: the same bytes as data_batch_1.bin; unpack", "data", "verify", "--data", folder)
        self.assertEqual(text.count("  ok\n"), 5)

    def test_missing_or_other_data(self):
        self.synthetic()
        self.bad(DATA, "data synth", "data", "verify", "--data", os.path.join(self.folder, "nowhere"))
        self.bad(DATA, "cifar-10-batches-bin", "data", "info", "--data", self.data, "--dataset", "cifar10")
        self.bad(DATA, "cifar-10-batches-bin", "data", "verify", "--data", self.synthetic(), "--dataset", "cifar10")
        self.bad(USAGE, "--dataset", "data", "verify", "--dataset", "imagenet")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "nowhere")))
        blocked = os.path.join(self.folder, "blocked")
        os.makedirs(blocked)
        self.write("blocked/synthetic-10-batches-bin", "a file")
        self.bad(DATA, "synthetic-10-batches-bin", "data", "synth", "--out", blocked)

    # ---- ckpt

    def test_ckpt_ls(self):
        text = self.good("ckpt", "ls", self.trained())
        self.assertRegex(text, r"\n +0 .* 1  good\n")
        self.assertRegex(text, r"\n +3 .* 1  good\n")

    def test_ckpt_inspect_agrees_with_the_run(self):
        with open(os.path.join(self.trained(), "metrics.jsonl")) as lines:
            end = json.loads(lines.readlines()[-1])
        expected = "weights_sha256: %s\n" % end["weights_sha256"]
        for path in [self.trained() + "/", self.checkpoint(), os.path.join(self.checkpoint(), "weights.safetensors"),
                     os.path.join(self.trained(), "last.bin")]:
            self.assertIn(expected, self.good("ckpt", "inspect", path))
        self.assertNotIn(expected, self.good("ckpt", "inspect", self.checkpoint(0)))
        text = self.good("ckpt", "inspect", self.checkpoint())
        self.assertIn("[10, 3072]", text)
        self.assertIn("metadata cifar_train.dataset: synthetic-10", text)
        self.assertIn("state step: 3\n", text)

    def test_ckpt_inspect_hash_is_of_the_whole_state(self):
        def of(path):
            return [line for line in self.good("ckpt", "inspect", path, "--hash").splitlines() if "state_sha256" in line]
        self.assertEqual(len(of(self.trained())), 1)
        self.assertEqual(of(self.trained()), of(self.checkpoint()))
        self.assertNotEqual(of(self.trained()), of(self.checkpoint(0)))
        other = os.path.join(self.folder, "two-ranks")
        self.train(other, ranks=2)
        self.assertEqual(of(self.trained()), of(other))
        self.bad(USAGE, "--hash", "ckpt", "inspect", os.path.join(self.trained(), "last.bin"), "--hash")

    def test_ckpt_diff_exits_as_diff_does(self):
        self.assertTrue(self.good("ckpt", "diff", self.trained(), self.checkpoint()).endswith(" tensors differ\n"))
        done = run("ckpt", "diff", self.checkpoint(0), self.checkpoint())
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertRegex(done.stdout, r"(?m)^\S+weight: \d+ elements differ, by .*$")
        self.assertRegex(done.stdout, r"(?m)^state step: 0 and 3$")
        with open("/dev/full", "w") as full:  # what differs could not be told
            self.assertEqual(subprocess.run([PROGRAM, "ckpt", "diff", self.checkpoint(0), self.checkpoint()],
                                            stdout=full, stderr=subprocess.PIPE).returncode, 8)
        self.bad(CHECKPOINT, "nowhere", "ckpt", "diff", self.checkpoint(), "nowhere")

    def test_ckpt_verify_names_what_is_damaged(self):
        text = self.good("ckpt", "verify", self.trained())
        self.assertIn("last.bin: good", text)
        self.assertIn("step-00000003: good", text)

        copy = self.copy(self.trained(), "bit-flipped")
        newest = os.path.join(copy, "ckpt", "step-00000003")
        weights = os.path.join(newest, "weights.safetensors")
        flip(weights, os.path.getsize(weights) - 100)
        text = self.bad(CHECKPOINT, "weights.safetensors", "ckpt", "verify", copy)
        self.assertIn("step-00000000: good", text)
        self.bad(CHECKPOINT, ".weight", "ckpt", "verify", newest)
        self.bad(CHECKPOINT, ".weight", "ckpt", "verify", weights)
        self.bad(CHECKPOINT, "weights.safetensors", "ckpt", "inspect", newest)
        # What can still be used is: the run's newest good one, with a warning.
        shown = run("ckpt", "inspect", copy)
        self.assertEqual(shown.returncode, DONE)
        self.assertIn("step-00000000\n", shown.stdout)
        self.assertIn("warning: ", shown.stderr)
        listed = run("ckpt", "ls", copy)
        self.assertEqual(listed.returncode, DONE)
        self.assertRegex(listed.stdout, r"\n +3 .* -  damaged\n")

        os.truncate(os.path.join(newest, "state.json"), 20)
        os.remove(os.path.join(copy, "ckpt", "step-00000000", "manifest.json"))
        self.bad(CHECKPOINT, "more problems", "ckpt", "verify", copy)
        self.bad(CHECKPOINT, "none of the 2 checkpoints", "ckpt", "inspect", copy)
        last = os.path.join(copy, "last.bin")
        os.truncate(last, os.path.getsize(last) - 1)
        self.bad(CHECKPOINT, "last.bin", "ckpt", "inspect", last)
        self.bad(CHECKPOINT, "last.bin", "ckpt", "verify", last, self.checkpoint())

    def test_other_files_and_folders(self):
        def foreign(name, dtype, size):
            header = json.dumps({"a\nb": {"dtype": dtype, "shape": [2], "data_offsets": [0, 2 * size]}}).encode()
            path = os.path.join(self.folder, name)
            with open(path, "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header + bytes(2 * size))
            return path
        f32, f16 = foreign("foreign.safetensors", "F32", 4), foreign("half.safetensors", "F16", 2)
        text = self.good("ckpt", "inspect", f32)
        self.assertIn("'a\\x0ab'", text)
        self.assertIn("no checksums", text)
        self.assertIn("weights_sha256: none", self.good("ckpt", "inspect", f16))
        self.assertIn("no checksums", self.good("ckpt", "verify", f32))

        for path in ["nowhere", self.folder, self.write("garbage.bin", "garbage"), self.write("empty.bin", "")]:
            self.bad(CHECKPOINT, os.path.basename(path), "ckpt", "inspect", path)
            self.bad(CHECKPOINT, os.path.basename(path), "ckpt", "verify", path)
        os.makedirs(os.path.join(self.folder, "hollow", "ckpt"))
        for word in ["ls", "inspect", "verify"]:
            self.bad(CHECKPOINT, "hollow", "ckpt", word, os.path.join(self.folder, "hollow"))
            self.bad(USAGE, "required", "ckpt", word)
        self.bad(USAGE, "ckpt inspect", "ckpt", "ls", self.checkpoint())

    # ---- eval

    def test_eval_is_quiet_where_that_is_asked(self):
        words = ["eval", "--ckpt", self.trained(), "--max-images", 10]
        loud, quiet = run(*words), run(*words, "-q")
        self.assertIn("loss ", loud.stderr)
        self.assertEqual((quiet.returncode, quiet.stderr), (DONE, ""))
        self.assertEqual(quiet.stdout, loud.stdout)
        self.assertIn("--quiet", self.good("eval", "--help"))

    # ---- doctor

    def test_doctor(self):
        self.synthetic()
        text = self.good("doctor", "--data", self.data)
        for what in ["cores", "memory", "device", "MPI library", "/dev/shm", "TMPDIR", "disk here", "clock"]:
            self.assertRegex(text, r"(?m)^(ok  |warn)  %s " % what)
        self.assertRegex(text, r"ok +data +synthetic-10 in ")
        findings = json.loads(self.good("doctor", "--json", "--data", self.data))
        self.assertTrue(findings["data"]["ok"])
        self.assertEqual(len(re.findall("(?m)^warn ", text)), sum(not f["ok"] for f in findings.values()))

    def test_doctor_warns_with_the_remedy(self):
        out = os.path.join(self.folder, "sick")
        shutil.copytree(self.synthetic(), os.path.join(out, "synthetic-10-batches-bin"))
        os.truncate(os.path.join(out, "synthetic-10-batches-bin", "test_batch.bin"), 1)
        findings = json.loads(self.good("doctor", "--json", "--data", out, TMPDIR="/nowhere", PATH="/nowhere"))
        self.assertIn("test_batch.bin", findings["data"]["warning"])
        self.assertIn("set TMPDIR", findings["TMPDIR"]["warning"])
        self.assertEqual(findings["mpirun"]["value"], "not on PATH")
        contradiction = json.loads(self.good("doctor", "--json", OMPI_COMM_WORLD_RANK="x", OMPI_COMM_WORLD_SIZE="2"))
        self.assertIn("OMPI_COMM_WORLD_RANK", contradiction["launcher"]["warning"])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mpirun"), "needs root and mpirun")
    def test_doctor_knows_what_mpirun_refuses_root(self):
        findings = json.loads(self.good("doctor", "--json", OMPI_ALLOW_RUN_AS_ROOT=None))
        self.assertIn("OMPI_ALLOW_RUN_AS_ROOT=1", findings["mpirun as root"]["warning"])
        findings = json.loads(self.good("doctor", "--json", OMPI_ALLOW_RUN_AS_ROOT="1",
                                        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        self.assertTrue(findings["mpirun as root"]["ok"])

    def test_doctor_looks_for_mpirun_where_a_bundle_has_it(self):
        bundle = os.path.join(self.folder, "bundle")
        for folder in ["bin", "libexec"]:
            os.makedirs(os.path.join(bundle, folder))
        program = self.copy(PROGRAM, "bundle/libexec/cifar-train")
        findings = json.loads(self.good("doctor", "--json", program=program, PATH="/nowhere"))
        self.assertEqual(findings["mpirun"]["value"], "not on PATH")
        launcher = self.write("bundle/bin/mpirun", "#!/bin/sh\n")
        os.chmod(launcher, 0o755)
        findings = json.loads(self.good("doctor", "--json", program=program, PATH="/nowhere"))
        self.assertEqual(findings["mpirun"]["value"], launcher)
        self.assertTrue(findings["mpirun"]["ok"])

    def test_doctor_without_gpus(self):
        findings = json.loads(self.good("doctor", "--json"))
        if "GPUs" in findings:
            self.assertEqual(findings["GPUs"], {"value": "built without CUDA", "ok": True, "warning": ""})
        else:
            self.assertIn("CUDA runtime", findings)

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_doctor_on_gpus(self):
        def findings(**environment):
            return json.loads(self.good("doctor", "--json", program=ON_HOST, **environment))
        found = findings(ON_HOST_DEVICES="2", ON_HOST_DRIVER="13010", ON_HOST_CAPABILITY="9.0")
        self.assertIn("serves CUDA 13.1", found["NVIDIA driver"]["value"])
        self.assertTrue(found["NVIDIA driver"]["ok"])
        self.assertEqual(found["CUDA runtime"]["value"], "13.0, a part of this program")
        for gpu in ["GPU 0", "GPU 1"]:
            self.assertRegex(found[gpu]["value"], r"\(sm_90\), \d\.\d GB free of 2\.1 GB, GPU(-[0-9a-f]+){5}$")
            self.assertTrue(found[gpu]["ok"])
        self.assertNotIn("GPU 2", found)
        for library in ["cuDNN", "cuBLASLt", "NCCL"]:
            self.assertRegex(found[library]["value"], r"^\d+\.\d+\.\d+ in /.*\.so\.|^cannot be used$")
            self.assertEqual(found[library]["ok"], found[library]["value"] != "cannot be used")
        old = findings(ON_HOST_CAPABILITY="7.5", ON_HOST_DEVICES="1")
        self.assertIn("sm_80", old["GPU 0"]["warning"])
        late = findings(ON_HOST_DRIVER="12040")
        self.assertIn("update the driver", late["NVIDIA driver"]["warning"])
        self.assertNotIn("GPU 0", late)
        none = findings(ON_HOST_DRIVER="0")
        self.assertIn("no NVIDIA driver", none["NVIDIA driver"]["value"])
        self.assertTrue(all(none[what]["ok"] for what in ["NVIDIA driver", "cuDNN", "cuBLASLt", "NCCL"]))

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_doctor_says_which_library_is_wrong(self):
        folder = os.path.join(self.folder, "libraries")
        os.makedirs(folder, exist_ok=True)
        damaged = self.write("libraries/libcudnn.so.9", "no library")
        found = json.loads(self.good("doctor", "--json", "--cuda-path", folder, program=ON_HOST))
        self.assertEqual(found["cuDNN"]["value"], "cannot be used")
        self.assertIn(damaged, found["cuDNN"]["warning"])
        self.bad(USAGE, "--cuda-path /nowhere", "doctor", "--cuda-path", "/nowhere", program=ON_HOST)

    def test_a_cuda_path_without_libraries(self):
        """What somebody named must hold what it was named for, also where nothing will be looked for in it."""
        folder = os.path.join(self.folder, "no-libraries")
        os.makedirs(os.path.join(folder, "lib64"))
        reduce = ["bench", "reduce", "--device", "cpu", "--elements", 5000, "--windows", 1, "--seconds", 0.001]
        for words in ["doctor"], ["selftest", "--device", "cpu"], reduce:
            self.bad(USAGE, "--cuda-path %s (cuda.path) has no libcudnn" % folder, *words, "--cuda-path", folder)
        self.write("no-libraries/lib64/libnccl.so.2", "whatever it is")
        self.good(*reduce, "--cuda-path", folder)

    # ---- selftest

    def test_selftest(self):
        text = self.good("selftest", "--device", "cpu")
        for op in ["conv2d", "linear_grad_w", "batch_norm", "adam"]:
            self.assertRegex(text, r"(?m)^%s +\d+  f32 bf16 +\d+ %%$" % op)
        total = re.search(r"(?m)^total +(\d+) ", text)
        self.assertIn("fp16", text.splitlines()[-1])  # why those cases are skipped
        verbose = self.good("selftest", "--device", "cpu", "-v")
        self.assertEqual(len(re.findall("(?m)^ok ", verbose)), int(total.group(1)))
        self.bad(USAGE, "--device", "selftest", "--device", "abacus")

    def test_selftest_as_json(self):
        report = json.loads(self.good("selftest", "--device", "cpu", "--json"))
        self.assertEqual(report["failed"], 0)
        self.assertEqual(report["cases"], sum(op["cases"] for op in report["ops"].values()))
        self.assertEqual(report["types"], ["f32", "bf16"])
        self.assertGreater(report["skipped"], 100)
        self.assertTrue(0 < report["largest_error"] <= 1)

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_selftest_without_a_gpu_is_one_line(self):
        self.bad(USAGE, "no NVIDIA driver", "selftest", "--device", "cuda", program=ON_HOST, ON_HOST_DRIVER="0")

    # ---- devices

    def test_version_tells_of_gpus(self):
        self.assertRegex(self.good("--version"), r"(?m)^GPUs: (none \(built without CUDA\)|CUDA \d+\.\d for sm_.*)$")

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_version_asks_no_driver(self):
        text = self.good("--version", program=ON_HOST, ON_HOST_DRIVER="0")
        self.assertRegex(text, r"(?m)^GPUs: CUDA 13\.0 for the stand-in on the host$")

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_the_gpu_that_is_asked_for_is_judged(self):
        """Number 0 is too old, those after it are not."""
        gpus = {"program": ON_HOST, "ON_HOST_DEVICES": "3", "ON_HOST_CAPABILITY": "7.0,9.0"}
        words = ["reduce", "--elements", 5000, "--ranks", "auto", "--json", "--device"]
        self.assertEqual(json.loads(self.bench(*words, "cuda:1", **gpus))["ranks"], 2)  # one a GPU from there on
        self.bad(USAGE, "GPU 0, On-host GPU (sm_70), is too old", "bench", *words, "cuda", **gpus)
        self.bad(USAGE, "no GPU number 3: 3 are visible", "bench", *words, "cuda:3", **gpus)
        self.assertIn("cuda, On-host GPU (sm_90)", self.bench("step", "--device", "auto", **gpus))

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_auto_asks_the_driver_once(self):
        """Each GPU once: a third question would get no answer."""
        text = self.good("config", "show", os.path.join(CONFIGS, "default.yaml"), "--set", "device=auto", program=ON_HOST,
                         ON_HOST_DEVICES="2", ON_HOST_FAIL="cudaGetDeviceProperties:46:3")
        self.assertIn("(follows on 2 ranks)", text)

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_a_shared_gpu_is_named_as_nvidia_smi_names_it(self):
        words = ["bench", "reduce", "--device", "cuda", "--ranks", 2]
        self.bad(USAGE, "ranks 0 and 1 have the same GPU (GPU-10355a7f-a4c9-ee13-385d-82a7ccf1163b)", *words,
                 program=ON_HOST, ON_HOST_DEVICES="1")

    # ---- bench

    def bench(self, *words, **options):
        self.synthetic()
        return self.good("bench", *words, "--windows", 1, "--seconds", 0.001, "--set", "model.name=linear",
                         "--set", "data.dataset=synthetic", "--set", "data.path=" + self.data, **options)

    def test_bench_of_operations_on_the_cpu(self):
        text = self.bench("step", "--ops", "--device", "cpu")
        self.assertRegex(text, r"(?m)^linear, batch 16 = 4 x 4 x 1 ranks.* images/s")
        self.assertRegex(text, r"(?m)^measured peaks of this core: \d+ GFLOP/s, \d+\.\d GB/s copy$")
        self.assertRegex(text, r"(?m)^  linear +\d+\.\d\d +\d+ +\d+% +\d+\.\d  \S+ \[[\d,]+\]$")
        self.assertRegex(text, r"(?m)^  sum +\d+\.\d\d$")
        json_text = self.bench("step", "--ops", "--device", "cpu", "--json")
        self.assertEqual(len(json_text.splitlines()), 1, json_text)
        result = json.loads(json_text)
        self.assertEqual([op["name"] for op in result["ops"]], re.findall(r"(?m)^  ([a-z]\w+) .*\d+\.\d  \S.*$", text))
        self.assertGreater(result["peaks"]["flops"], 0)
        # A micro-batch's operations count four times.
        self.assertGreater(result["ops_us"], sum(op["us"] for op in result["ops"]))

    def test_bench_of_operations_on_large_tensors(self):
        self.synthetic()
        result = json.loads(self.good("bench", "--ops", "--large", "--json", "--device", "cpu", "--windows", 1,
                                      "--seconds", 0.001, "--set", "model.name=cnn_plain",
                                      "--set", "data.dataset=synthetic", "--set", "data.path=" + self.data))
        large = {op["name"]: op for op in result["large_ops"]}
        self.assertLessEqual({"relu", "relu_grad", "max_pool", "max_pool_grad"}, set(large))
        self.assertNotIn("linear", large)  # not bound by memory
        for op in large.values():
            self.assertGreater(op["copy_share"], 0, op)
        self.assertNotIn("large_ops", json.loads(self.bench("step", "--ops", "--device", "cpu", "--json")))

    def test_bench_takes_no_option_that_it_would_ignore(self):
        self.bad(USAGE, "--ops belongs to bench step, not to bench data", "bench", "data", "--ops")
        self.bad(USAGE, "--elements belongs to", "bench", "step", "--elements", 10)
        self.bad(USAGE, "add --ops", "bench", "step", "--large")
        self.bad(USAGE, "--ops times operations on one rank, not on 2", "bench", "--ops", "--ranks", 2)

    def test_bench_of_operations_in_bf16(self):
        """No operation can do more than the processor."""
        words = ["step", "--ops", "--device", "cpu", "--set", "bf16.enabled=true", "--set", "train_batch_size=64",
                 "--set", "train_micro_batch_size_per_gpu=64"]
        refused = run("bench", *words)
        if "AVX512-BF16" in refused.stderr or "oneDNN" in refused.stderr:
            self.skipTest("this machine or build does not compute in bf16")
        text = self.bench(*words)
        self.assertRegex(text, r"(?m)^measured peaks .* GB/s copy; in bf16 by \S+ at most \d+ times as many, \d+ GFLOP/s$")
        shares = [int(share) for share in re.findall(r"(?m)^  \S+ .* (\d+)%", text)]
        self.assertTrue(shares and max(shares) <= 100, text)

    def test_bench_of_the_update(self):
        """Of the configuration's optimizer."""
        for kind, more, at in (("Adam", [], (34, 28)), ("SGD", ["optimizer.params.momentum=0.9"], (26, 20)),
                               ("SGD", [], (18, 12)), ("RMSprop", [], (26, 20))):
            words = ["update", "--device", "cpu", "--ranks", 2, "--elements", 20000,
                     *[w for s in ["optimizer.type=" + kind, *more] for w in ("--set", s)]]
            text = self.bench(*words)
            self.assertRegex(text, r"^update of 0\.0 M parameters on 2 ranks by %s: .* at %d B\); %s alone: .* at %d B\); "
                             r"an average of weights: .* at 12 B\)$" % (kind, at[0], kind, at[1]))
            result = json.loads(self.bench(*words, "--json"))
            self.assertEqual(result["optimizer"], kind)
            self.assertTrue(0 < result["alone_ms"] and 0 < result["update_ms"], result)

    def test_bench_of_the_sum_over_ranks(self):
        result = json.loads(self.bench("reduce", "--device", "cpu", "--elements", 5000, "--ranks", 2, "--json"))
        self.assertEqual((result["ranks"], result["bytes"], result["equal_to_tree"]), (2, 20000, True))
        self.bad(USAGE, "--device cpu", "bench", "reduce", "--device", "cuda", CUDA_VISIBLE_DEVICES="")

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_bench_of_the_sum_over_ranks_on_gpus(self):
        def reduce(*words, **environment):
            return self.bench("reduce", "--device", "cuda", "--elements", 5000, "--ranks", 2, *words, program=ON_HOST,
                              **environment)
        for backend, gpus, way in (("nccl", 2, "NCCL"), ("threads", 2, "through host memory"),
                                   ("auto", 1, "through host memory")):
            text = reduce("--set", "communication.backend=" + backend, "--set", "communication.share_device=true",
                          ON_HOST_DEVICES=str(gpus))
            self.assertRegex(text, r"^sum of 0\.0 MB over 2 ranks \(.*%s.*\): .*, equal to the tree bit by bit$" % way)
        self.bad(USAGE, "share_device", "bench", "reduce", "--device", "cuda", "--ranks", 2, program=ON_HOST,
                 ON_HOST_DEVICES="1")

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_bench_of_operations_on_a_gpu(self):
        text = self.bench("step", "--ops", "--device", "cuda", program=ON_HOST)
        self.assertRegex(text, r"(?m)^measured peaks of this GPU: .* GB/s copy of .* GFLOP/s f32 product of \d+\^3$")
        self.assertRegex(text, r"(?m)^  linear +\d+\.\d\d +\d+ +\d+\.\d% +\d+\.\d +\d+\.\d%  \S+ \[[\d,]+\]$")
        self.assertRegex(text, r"(?m)^step: .* recorded, .* unrecorded; its operations .* gaps")
        result = json.loads(self.bench("step", "--ops", "--device", "cuda", "--json", program=ON_HOST))
        self.assertTrue({"linear", "softmax_cross_entropy", "adam"} <= {op["name"] for op in result["ops"]})
        self.assertGreater(result["recorded_us"], 0)
        self.assertAlmostEqual(result["gaps_us"], result["recorded_us"] - result["ops_us"], delta=1e-3)
        self.assertGreater(result["peaks"]["copy_bytes_per_sec"], 0)

    @unittest.skipUnless(os.path.exists(ON_HOST), "needs a build with cifar-train-on-host")
    def test_bench_of_the_update_on_a_gpu(self):
        words = ["update", "--device", "cuda", "--elements", 10000]
        text = self.bench(*words, program=ON_HOST)
        self.assertRegex(text, r"(?m)^update of 0\.0 M parameters: .*; Adam alone: .* %\)$")
        result = json.loads(self.bench(*words, "--json", program=ON_HOST))
        self.assertTrue(0 < result["alone_copy_share"] and 0 < result["update_copy_share"])
        self.bad(USAGE, "--ranks", "bench", *words, "--ranks", 2, program=ON_HOST)


if __name__ == "__main__":
    if not PROGRAM:
        print("CIFAR_TRAIN does not name the program")
        sys.exit(77)
    unittest.main()
