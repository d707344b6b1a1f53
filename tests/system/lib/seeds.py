"""The configurations of configs/seeds/ and the original files of these systems: their files, ranks, resulting settings,
and the settings that make them small enough for a test."""
import os
from deepspeed_configs import CONFIGS as DEEPSPEED
from harness import *
from png import png

SEEDS = os.path.join(CONFIGS, "seeds")
# What these systems' own YAML has, with the blanks behind a path that it has too.
IMAGENET_YAML = """seed: 42
imagenet:
  train: /groups/GROUP/datasets/imagenet/train
  val: /groups/GROUP/datasets/imagenet/val
wandb:
  project: deepspeed-abci-tutorial
  entity: YOUR_WANDB_ACCOUNT_NAME
  run_name: tutorial
train:
  epochs: 1
  log_interval: 4
  save_interval: 60
  max_global_step: -1
  save_path: /scratch/YOUR_ABCI_ACCOUNT_NAME/deepspeed_abci_tutorial
eval:
  ckpt_path: /scratch/YOUR_ABCI_ACCOUNT_NAME/deepspeed_abci_tutorial/tutorial/120/mp_rank_00_model_states.pt  
  batch_size: 280
  max_eval: 10
"""
MODES = ("cpu", "gpu", "dataparallel", "distributed", "deepspeed")


class Seed:
    """`ranks`: ranks of the original command. `comes_to`: keys and values of `config show`, with the batch as (train,
    micro, accumulation). `small`: settings of a test with `batch` images a step."""

    def __init__(self, files, ranks, batch, comes_to, small=None, fp16=False):
        self.files, self.ranks, self.batch, self.comes_to, self.fp16 = files, ranks, batch, comes_to, fp16
        self.small = {"steps_per_print": 1, "train.max_steps": 3, "train.eval_batch_size": 4, **(small or {})}

    def words(self):
        config, *deepspeed = self.files
        return ["--config", config, *(["--deepspeed_config", *deepspeed] if deepspeed else [])]


VIT = {"model.dim": 24, "model.depth": 1, "model.heads": 2, "model.dim_head": 8, "model.mlp_dim": 16,
       "train_micro_batch_size_per_gpu": 4}
RESNET = {"model.width": 4, "data.size": 32, "data.resize": 36, "train_batch_size": 8,
          "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
          "scheduler.params.total_num_steps": 12}
FEW_IMAGES = {"train_batch_size": 4}
ADAM = {"optimizer.type": "Adam", "lr": "0.001", "betas": "[0.8, 0.999]", "weight_decay": "3e-07",
        "scheduler.type": "WarmupLR", "warmup_num_steps": "1000"}
SGD = {"optimizer.type": "SGD", "lr": "0.001", "momentum": "0.9"}
ONE_CYCLE = {"name": "vit_tiny", "optimizer.type": "AdamW", "scheduler.type": "OneCycle", "cycle_max_lr": "0.004",
             "gradient_clipping": "5", "prescale_gradients": "true", "epochs": "400", "patience": "50", "split": "test"}
COSINE = {"name": "resnet50", "output": "runs/tutorial", "optimizer.type": "AdamW", "lr": "0.001",
          "scheduler.type": "WarmupCosineLR", "total_num_steps": "128", "gradient_clipping": "1", "stage": "2",
          "device": "cpu", "steps_per_print": "4", "save_interval": "60"}
EXAMPLE = {**ADAM, "gradient_clipping": "1", "initial_scale_power": "15", "loss_scale_window": "500", "epochs": "30"}
METHODS = {**SGD, "epochs": "100", "log_interval": "1000", "log_format": "ema_loss", "save_interval": "10000",
           "eval_interval": "200", "keep_last": "1000"}
SHORT_METHODS = {"train.log_interval": 1, "train.eval_interval": 0}


def here(*names):
    return [os.path.join(SEEDS, name) for name in names]


def methods(mode, ranks, batch, *deepspeed):
    return Seed(here("methods_%s.yaml" % mode, *deepspeed), ranks, batch,
                {**METHODS, "output": "runs/ckpt_" + mode, "device": "cpu" if mode == "cpu" else "auto",
                 "sample_grid": str(mode != "deepspeed").lower()}, SHORT_METHODS)


CONFIGURATIONS = {
    "cifar_baseline": Seed(here("cifar_baseline.yaml"), 1, (4, 4, 1), {**SGD, "epochs": "2", "log_interval": "2000"}),
    "cifar_deepspeed": Seed(here("cifar_deepspeed.yaml", "cifar_ds_config.json"), 1, (4, 4, 1),
                            {**ADAM, "epochs": "2", "steps_per_print": "2000"}),
    "cifar_example": Seed(here("cifar_example.yaml"), 1, (16, 16, 1), {**EXAMPLE, "log_format": "example"}, FEW_IMAGES,
                          True),
    "vit_tiny": Seed(here("vit_tiny.yaml", "vit_tiny_ds_config.json"), 3, (1536, 256, 2), ONE_CYCLE, VIT, True),
    "imagenet": Seed(here("imagenet.yaml", "imagenet_ds_config.json"), 36, (10080, 280, 1), COSINE, RESNET, True),
    "methods_cpu": methods("cpu", 1, (4, 4, 1)),
    "methods_gpu": methods("gpu", 1, (4, 4, 1)),
    "methods_dataparallel": methods("dataparallel", 2, (8, 4, 1)),
    "methods_distributed": methods("distributed", 2, (8, 4, 1)),
    "methods_deepspeed": methods("deepspeed", 2, (8, 4, 1), "methods_ds_config.json")}


def written(name, text):
    os.makedirs(path("theirs"), exist_ok=True)
    with open(path("theirs", name), "w", encoding="utf-8") as file:
        file.write(text)
    return path("theirs", name)


@functools.lru_cache(None)
def their_files():
    """The systems' DeepSpeed files: alone as --config if the system has no YAML, else with it."""
    def deepspeed(name):
        return written(name + ".json", DEEPSPEED[name])
    vit = os.path.join(SEEDS, "vit_tiny.yaml")  # that script has its network and data in its words
    return {
        "tutorial": Seed([deepspeed("tutorial")], 1, (4, 4, 1), ADAM),
        "example": Seed([deepspeed("tutorial_of_today")], 1, (16, 16, 1), {**EXAMPLE, "epochs": "2"}, FEW_IMAGES, True),
        "vit": Seed([vit, deepspeed("small_vit")], 1, (512, 256, 2), ONE_CYCLE, VIT, True),
        "resnet": Seed([written("default.yaml", IMAGENET_YAML), deepspeed("imagenet")], 36, (10080, 280, 1),
                       {**COSINE, "output": "/scratch/YOUR_ABCI_ACCOUNT_NAME/deepspeed_abci_tutorial/tutorial"}, RESNET,
                       True)}


@functools.lru_cache(None)
def pictures():
    """Folders of pictures with two classes, each with a picture more than a batch needs."""
    numbers = random.Random(5)
    for split in ("train", "val"):
        for label in ("ape", "bee"):
            os.makedirs(path("pictures", split, label))
            for number in range(13 if split == "train" else 2):
                with open(path("pictures", split, label, "%d.png" % number), "wb") as file:
                    file.write(png(40, 37, numbers.randbytes(40 * 37 * 3)))
    return path("pictures")


def data_of(name):
    if name in ("imagenet", "resnet"):
        return {"data.train": os.path.join(pictures(), "train"), "data.val": os.path.join(pictures(), "val")}
    return {"data.path": few(400, 4), "data.on_corrupt": "skip"}


def train_small(name, seed, *words, ranks, output=None, **changed):
    """Trains a few steps. Returns the folder and the output."""
    output = output or path("small-" + name)
    sets = {**data_of(name), **seed.small, **dotted(changed)}
    _, config, *rest = train_words(output, sets, config="")
    done = finish(start(Ranks(ranks).words(*seed.words(), *rest, *words)), timeout=600)
    expect_equal(done.returncode, DONE, name, done.stdout, done.stderr)
    return output, done
