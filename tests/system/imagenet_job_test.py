#!/usr/bin/env python3
"""A job of DeepSpeed's ImageNet tutorial with its unchanged YAML, DeepSpeed file and environment file, on a network and
images that take milliseconds."""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

YAML = """seed: 42
imagenet:
  train: %(folder)s/imagenet/train
  val: %(folder)s/imagenet/val
wandb:
  project: deepspeed-tutorial
  entity: YOUR_WANDB_ACCOUNT_NAME
  run_name: tutorial
train:
  epochs: 1
  log_interval: 4
  save_interval: 6
  max_global_step: -1
  save_path: %(folder)s/scratch
eval:
  ckpt_path: %(folder)s/scratch/tutorial/6/mp_rank_00_model_states.pt   
  batch_size: 28
  max_eval: 1
"""
DEEPSPEED = {
    "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.05}},
    "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": "auto", "warmup_num_steps": 3}},
    "gradient_clipping": 1.0,
    "fp16": {"enabled": True, "auto_cast": True},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True},
                          "allgather_partitions": True, "allgather_bucket_size": 2e8, "overlap_comm": True,
                          "reduce_scatter": True, "reduce_bucket_size": 2e8, "contiguous_gradients": True}}
STEPS = 12  # of 400 images
# What makes it a job of milliseconds.
SMALL = ["model.name=linear", "data.dataset=cifar10", "data.train=", "data.val=", "data.on_corrupt=skip",
         "data.augment=[flip]", "train.eval_batch_size=50"]
BF16 = ["fp16.enabled=false", "bf16.enabled=true"]


def write(name, text):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "w") as file:
        file.write(text)
    return path(name)


@functools.lru_cache(None)
def job():
    """The job's environment file."""
    write("job/configs/default.yaml", YAML % {"folder": path("job")})
    write("job/configs/ds_config.json", json.dumps(DEEPSPEED))
    return write("job/.env", "# of the job\nPATH_TO_WORKING_DIR=%s\n\nexport PATH_TO_CONFIG_FILE=./configs/default.yaml\n"
                             "PATH_TO_DS_CONFIG=$PATH_TO_WORKING_DIR/configs/ds_config.json\n"
                             "CUDA_HOME_PATH=/apps/cuda/11.7.1\nWANDB_MODE=offline\n" % path("job"))


def words(*sets, data=None):
    return ["--env", job(), *[w for s in [*SMALL, "data.path=" + (data or few()), *sets] for w in ("--set", s)]]


def f32_or_bf16():
    done = run("train", *words(*BF16), "--dry-run")
    return BF16 if done.returncode == DONE else ["fp16.enabled=false"]


@check
def its_files_load_as_they_are():
    done = succeeds("config", "show", "--env", job())
    for line in ["train: %s/imagenet/train" % path("job"), "val: %s/imagenet/val" % path("job"), "name: resnet50",
                 "output: %s/scratch/tutorial" % path("job"), "steps_per_print: 4", "save_interval: 6",
                 "max_steps: -1", "type: WarmupCosineLR", "stage: 2"]:
        expect(re.search(r"(?m)^ *%s( |$)" % re.escape(line), done.stdout), line, done.stdout)
    for named in ["wandb.project", "wandb.entity", "fp16.auto_cast", "WANDB_MODE", "/apps/cuda/11.7.1"]:
        expect(named in done.stderr, named, done.stderr)


@check
def fp16_on_a_cpu_is_refused_with_the_remedy():
    remedy = ["fp16.enabled=false", "bf16.enabled=auto"]
    line = fails(USAGE, run("train", *words(), "--device", "cpu"), "fp16.enabled")
    expect(line.endswith(" ".join("--set " + word for word in remedy)), line)
    done = succeeds("train", *words(*remedy), "--device", "cpu", "--dry-run")


@check
def it_trains_saves_resumes_and_is_evaluated():
    output, sets = path("job", "scratch", "tutorial"), f32_or_bf16()
    done = succeeds("train", *words("train.max_steps=%d" % STEPS, *sets), "--ranks", 2)
    expect_equal(checkpoints(output), [0, 6, 12])
    steps = records(output, "step")
    expect_equal([r["step"] for r in steps], [4, 8, 12])
    lr = {r["step"]: r["lr"] for r in steps}
    expect(lr[12] < lr[8] < lr[4] <= 0.001, lr)
    with open(os.path.join(output, "config.yaml")) as file:
        expect("total_num_steps: %d" % STEPS in file.read(), "the length of the run is not recorded")
    # Longer, it would be another schedule.
    fails(CHECKPOINT, run("train", *words("train.epochs=2", *sets), "--ranks", 2),
          "scheduler.params.total_num_steps: %d saved, %d now" % (STEPS, 2 * STEPS),
          "--set scheduler.params.total_num_steps=%d" % STEPS)
    again = run("train", *words("train.epochs=1", *sets), "--ranks", 2)
    expect("the run is finished" in again.stderr, again.stderr)
    # What it says to do next holds where the caller is, who is in another folder than the job.
    told = run("train", *words("train.max_steps=0", *sets), "--output", "told", "--ranks", 2)
    expect("eval --ckpt %s\n" % path("job", "told", "best.bin") in told.stderr, told.stderr)
    # From the sixth step on, as if it had been stopped there.
    whole = result(output)
    resumed = run("train", *words(*sets), "--ranks", 2, "--resume", os.path.join(output, "ckpt", "step-00000006"))
    expect_equal(resumed.returncode, DONE, resumed.stderr)
    expect_same_result(output, whole)
    # On another number of ranks, which gradient_accumulation_steps must follow.
    sixth = ["--ranks", 1, "--resume", os.path.join(output, "ckpt", "step-00000006")]
    fails(USAGE, run("train", *words(*sets), *sixth), "fits 2 ranks, or set gradient_accumulation_steps to 8")
    resumed = run("train", *words("gradient_accumulation_steps=8", *sets), *sixth)
    expect_equal(resumed.returncode, DONE, resumed.stderr)
    expect_same_result(output, whole)
    # Longer, by the schedule that it had.
    longer = run("train", *words("train.max_steps=%d" % (STEPS + 2), "train.epochs=2",
                                 "scheduler.params.total_num_steps=%d" % STEPS, *sets), "--ranks", 2)
    expect_equal(longer.returncode, DONE, longer.stderr)
    expect_equal(records(output, "end")[-1]["step"], STEPS + 2)
    expect_equal(run("train", *words(*sets), "--ranks", 2, "--resume", sixth[3]).returncode, DONE)

    asked = ["eval", "--env", job(), "--data", few(), "--json"]
    found = json.loads(run(*asked).stdout)
    expect_equal((found["step"], found["images"]), (6, 84))  # (1 + 2) batches of 28, as the script reads them
    expect("--max-images 0 takes all" in run(*asked[:-1]).stderr, "it is not said that images were left out")
    whole = json.loads(run(*asked, "--max-images", 0, "--ckpt", output).stdout)
    expect_equal((whole["step"], whole["images"]), (STEPS, 200))
    expect(0 <= whole["accuracy"] <= whole["top5"] <= 1, whole)
    for number in ("-1", "1.5", "many"):
        line = fails(USAGE, run(*asked, "--max-images", number), "--max-images", "0 or more, not '%s'" % number)
        expect(len(line) < 200, line)


@check
def a_warm_up_that_takes_all_steps_is_warned_of():
    for sets in (["train.max_steps=3"], ["scheduler.params.total_num_steps=3", "train.max_steps=1"]):
        done = succeeds("train", *words(*sets, *f32_or_bf16()), "--ranks", 2, "--output", path("short"), "--reset")
        expect_equal(done.stderr.count("total_num_steps 3 is not more than warmup_num_steps 3"), 1, done.stderr)


@check
def it_is_evaluated_while_it_trains():
    output = path("job", "scratch", "tutorial")
    sets = ["train.epochs=100000", "train.save_interval=50", "steps_per_print=10", *f32_or_bf16()]
    training = start([PROGRAM, "train", *words(*sets), "--ranks", "2", "--reset"])
    try:
        # A checkpoint of this run: those of an earlier one, which it removes, are of fewer steps.
        names = os.path.join(output, "ckpt", "step-" + 8 * "[0-9]")
        wait_until(lambda: any(int(name[-8:]) >= 50 for name in glob.glob(names)), training)
        done = succeeds("eval", "--ckpt", os.path.join(output, "ckpt", "step-%08d" % checkpoints(output)[-1]), "--json")
        expect(json.loads(done.stdout)["step"] > 0, done.stdout)
    finally:
        os.killpg(training.pid, signal.SIGUSR1)
        expect_equal(finish(training).returncode, STOPPED)


@check
def options_win_over_the_jobs_words():
    other = write("other/other.yaml", "optimizer: {type: SGD}\ntrain_batch_size: 8\n")
    done = run("config", "show", "--env", job(), "--config", other)
    expect("type: AdamW" in done.stdout and "name: cnn" in done.stdout, done.stdout, done.stderr)
    done = run("config", "show", "--env", job(), "--config", other, "--deepspeed_config", other)
    expect("type: SGD" in done.stdout, done.stdout, done.stderr)


@check
def config_check_takes_the_same_pair():
    files = [path("job", "configs", name) for name in ("default.yaml", "ds_config.json")]
    for asked in ["--env", job()], [files[0], "--deepspeed_config", files[1]], ["--config", files[0], "--deepspeed_config", files[1]]:
        done = succeeds("config", "check", *asked)
        expect(re.search(r"default\.yaml \+ .*ds_config\.json: ok", done.stdout) and re.search(r"\n +2 +32 +4 +4\n", done.stdout), done.stdout)
    fails(USAGE, run("config", "check", "--env", job(), "--ranks", 3), "default.yaml", "it fits 2 ranks")
    fails(USAGE, run("config", "check"), "FILE is required")
    fails(USAGE, run("config", "check", "--env", write("empty.env", "A=1\n")), "empty.env", "names no configuration")


@check
def mistakes_in_the_environments_file_are_named():
    for line, culprit in [("PATH_TO_CONFIG_FILE=$(pwd)", "bad.env:2: expected a name after $"), ("nonsense", "bad.env:2: expects KEY=VALUE"),
                          ("PATH_TO_WORKING_DIR=/no/such/folder", "/no/such/folder"),
                          ("PATH_TO_CONFIG_FILE=nowhere.yaml", "nowhere.yaml"),
                          ("PATH_TO_DS_CONFIG=$CT_NOT_SET", "$CT_NOT_SET is set neither")]:
        fails(USAGE, run("train", "--env", write("bad.env", "#\n%s\n" % line), "--output", path("none")), culprit)
    fails(USAGE, run("train", "--env", path("absent.env")), "absent.env")
    fails(USAGE, run("eval", "--env", write("bad.env", "\n")), "--ckpt is required")
    expect(not os.path.exists(path("none")), "a refused run left its folder")


main()
