#!/usr/bin/env python3
"""configs/seeds/ and the original files of these systems: they load unchanged and train a few steps on a CPU; output,
files and pictures of the five ways to train one network."""
import os
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from seeds import *

ROOT = os.path.join(CONFIGS, "..")


@functools.lru_cache(None)
def instead_of_fp16():
    """bf16, if the processor computes in it."""
    done = run(*CONFIGURATIONS["cifar_baseline"].words(), "--dtype", "bf16", "--output", path("probe"),
               "--set", "data.path=" + few(), "--set", "data.on_corrupt=skip", "--dry-run")
    dtype = "bf16" if done.returncode == DONE else "fp32"
    expect(dtype == "bf16" or "bf16 needs a processor with AVX512-BF16" in done.stderr, done.stderr)
    return ["--dtype", dtype]


def shown(name, seed, *words):
    """{key: value} of `config show`, by the last part of the key and by its last two parts."""
    done = run("config", "show", *seed.words(), "--ranks", seed.ranks, *words)
    expect_equal(done.returncode, DONE, name, done.stderr)
    found, block = {}, ""
    for line in done.stdout.splitlines():
        match = re.match(r"(?:# )?( *)(\w+):(?: (.*?))? *(?:#.*|\(follows.*)?$", line)
        if match:
            block = match[2] if not match[1] else block
            found.setdefault(match[2], match[3])
            found["%s.%s" % (block, match[2])] = match[3]
    return found, done


def loads_as_it_is(name, seed):
    found, done = shown(name, seed)
    for key, value in seed.comes_to.items():
        at = "zero_optimization.device" if key == "device" and "stage" in seed.comes_to else key
        expect_equal(found.get(at), value, "%s: %s" % (name, at), done.stdout)
    batch = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    expect_equal(tuple(int(found[key]) for key in batch), seed.batch, name)
    expect_equal(found["fp16.enabled"], str(seed.fp16).lower(), name)
    expect("error" not in done.stderr, done.stderr)


def trains(name, seed):
    ranks = min(seed.ranks, 2)
    output, _ = train_small(name, seed, *(instead_of_fp16() if seed.fp16 else ()), "--device", "cpu", ranks=ranks)
    steps = records(output, "step")
    expect_equal([(r["step"], r["skipped"]) for r in steps], [(1, 0), (2, 0), (3, 0)], name)
    expect(all(0 < r["loss"] < 20 and r["grad_norm"] > 0 for r in steps), name, steps)
    start_record = records(output, "start")[-1]
    expect_equal((start_record["ranks"], start_record["compute"]),
                 (ranks, {"bf16": "bf16", "fp32": "f32"}[instead_of_fp16()[1]] if seed.fp16 else "f32"), name)
    expect_equal(records(output, "end")[-1]["step"], 3, name)


@check
def every_configuration_loads_as_it_is():
    expect_equal(sorted(os.path.join(SEEDS, file) for file in os.listdir(SEEDS)),
                 sorted([file for seed in CONFIGURATIONS.values() for file in seed.files] +
                        here("imagenet.env")), "files of configs/seeds/ that nothing here loads")
    for name, seed in CONFIGURATIONS.items():
        loads_as_it_is(name, seed)


@check
def the_systems_own_files_load_as_they_are():
    for name, seed in their_files().items():
        loads_as_it_is(name, seed)


@check
def our_files_equal_the_originals():
    """The DeepSpeed files here equal the systems' own, and a job's environment file finds its two files."""
    for ours, theirs in (("cifar_ds_config.json", "tutorial"), ("vit_tiny_ds_config.json", "small_vit"),
                         ("imagenet_ds_config.json", "imagenet")):
        with open(os.path.join(SEEDS, ours)) as file:
            expect_equal(json.load(file), {k: v for k, v in json.loads(DEEPSPEED[theirs]).items() if k[0] != "_"}, ours)
    done = succeeds("config", "show", "--env", "configs/seeds/imagenet.env", "--ranks", 36, cwd=ROOT)
    by_options, _ = shown("imagenet", CONFIGURATIONS["imagenet"])
    expect("total_num_steps: %s " % by_options["total_num_steps"] in done.stdout, done.stdout)
    example = [shown(name, seed)[0] for name, seed in (("example", their_files()["example"]),
                                                       ("cifar_example", CONFIGURATIONS["cifar_example"]))]
    told_apart = {"output", "epochs", "log_format", "train.epochs", "train.log_format", "output.output"}
    expect_equal(*[{k: v for k, v in found.items() if k not in told_apart} for found in example])


@check
def the_empty_file_is_named():
    """05's ds_config.json is empty."""
    empty = written("ds_config.json", "")
    config = CONFIGURATIONS["methods_deepspeed"].files[0]
    done = succeeds("config", "show", "--config", config, "--deepspeed_config", empty, "--set", "train_batch_size=8",
               "--set", "optimizer.type=SGD", "--set", "optimizer.params.lr=0.001")
    expect(re.search(r"(?m)^warning: .*ds_config\.json.* is empty", done.stderr), done.stderr)
    fails(USAGE, run("--config", config, "--deepspeed_config", empty, "--output", path("empty")),
          "ds_config.json is empty: no optimizer is given")


@check
def every_configuration_trains_on_a_cpu():
    print("      in place of fp16: %s" % instead_of_fp16()[1])
    for name, seed in CONFIGURATIONS.items():
        trains(name, seed)


@check
def the_systems_own_files_train_on_a_cpu():
    for name, seed in their_files().items():
        trains("their-" + name if name != "resnet" else name, seed)


@check
def documented_commands_are_valid():
    """Commands in the files' heads and in docs/from-deepspeed.md: their options and configurations exist."""
    with open(os.path.join(ROOT, "docs", "from-deepspeed.md"), encoding="utf-8") as page:
        texts = {"docs/from-deepspeed.md": page.read()}
    for file in os.listdir(SEEDS):
        with open(os.path.join(SEEDS, file), encoding="utf-8") as config:
            texts[file] = config.read()
    told = {file: set(re.findall(r"[\w/]*\bseeds/[a-z][\w.]+\w", text)) for file, text in texts.items()}
    for file, names in told.items():
        for name in names:
            places = [os.path.join(folder, name) for folder in (ROOT, CONFIGS)]
            expect(any(map(os.path.exists, places)), "%s: there is no %s" % (file, name))
    for name in CONFIGURATIONS:
        expect("seeds/%s.yaml" % name in told["docs/from-deepspeed.md"] or name == "imagenet", name)


# ---- the five ways to train one network

EPOCH = 50  # steps of 8 of the 400 images


def lines_of(done):
    return [line for line in done.stdout.splitlines() if line.startswith(">>>")]


def one_way(name, *words, ranks=2, **changed):
    """60 steps, across the end of an epoch."""
    changed = {"train__max_steps": 60, "train__log_interval": 4, "train__save_interval": 20, **changed}
    return train_small(name, CONFIGURATIONS[name], "--device", "cpu", *words, ranks=ranks,
                       output=changed.pop("output", path("way-" + name)), **changed)


@functools.lru_cache(None)
def whole():
    return one_way("methods_distributed")


def ema_lines(output):
    """From the definition, with the recorded losses."""
    ema, lines = 0.0, []
    for record in records(output, "step"):
        step = record["step"]
        if step % EPOCH == 1:
            ema = 0.0
        ema = 0.9 * ema + 0.1 * record["loss"]
        if step % 4 == 0:
            lines.append(">>> epoch: {:5}, step: {:7}, loss: {:2.4f}".format((step - 1) // EPOCH, step, ema))
    return lines


@check
def a_moving_average_of_the_loss_is_printed():
    output, done = whole()
    expect_equal(len(lines_of(done)), 15)
    expect_equal(lines_of(done), ema_lines(output))
    expect(lines_of(done)[0].startswith(">>> epoch:     0, step:       4, loss: 0."), lines_of(done))
    expect(lines_of(done)[12].startswith(">>> epoch:     1, step:      52, loss: 0."), lines_of(done))
    expect("[1," not in done.stdout, done.stdout)


@check
def three_ways_are_one():
    """4 images on each of two ranks, 8 on both together, and DeepSpeed's: the same bits, lines and pictures."""
    output, done = whole()
    for name in ("methods_dataparallel", "methods_deepspeed"):
        for ranks in (1, 2):
            other, same = one_way(name, "--reset", ranks=ranks)
            expect_same_result(other, result(output), name, ranks)
            expect_equal(lines_of(same), lines_of(done), name)
    with open(os.path.join(output, "sample_grid.png"), "rb") as first:
        with open(path("way-methods_dataparallel", "sample_grid.png"), "rb") as second:
            expect(first.read() == second.read(), "sample_grid.png")
    expect(not os.path.exists(path("way-methods_deepspeed", "sample_grid.png")), "05 draws none")


@check
def checkpoints_come_at_their_interval_and_stay():
    output, _ = whole()
    expect_equal(checkpoints(output), [0, 20, 40, 60])


@check
def a_run_that_is_stopped_prints_the_same_lines():
    _, done = whole()
    found = []
    for steps in (30, 53, 60):  # between saves, in both epochs
        output, part = one_way("methods_distributed", output=path("parts"), train__max_steps=steps)
        found += lines_of(part)
    expect_equal(found, lines_of(done))


@check
def lines_as_the_example_prints_them():
    name = "cifar_example"
    _, done = train_small(name, CONFIGURATIONS[name], "--dtype", "fp32", "--device", "cpu", ranks=1,
                          output=path("example"), train__log_interval=2, train_batch_size=4)
    _, plain = train_small(name, CONFIGURATIONS[name], "--dtype", "fp32", "--device", "cpu", ranks=1,
                           output=path("plain"), train__log_interval=2, train_batch_size=4, train__log_format="tutorial")
    found, line = done.stdout.splitlines(), plain.stdout.splitlines()
    expect_equal(found[0], re.sub(r"\[1,  ( *\d+)\] loss: ", r"[ 1,  \1] loss:  ", line[0]))
    expect(re.fullmatch(r"\[ 1,     2\] loss:  \d\.\d{3}", found[0]), found)
    expect("GroundTruth" in plain.stdout and "GroundTruth" not in done.stdout, done.stdout)
    expect(re.search(r"(?m)^Accuracy of the network on the 4 test images:  \d+ %$", done.stdout), done.stdout)
    expect(re.search(r"(?m)^Accuracy of   cat : (no images| ?\d+ %)$", done.stdout), done.stdout)


# ---- the picture of the first batch

def read_png(file):
    """(width, height, RGB rows) of a picture without interlacing, from the format's definition."""
    with open(file, "rb") as opened:
        content = opened.read()
    at, data = 8, b""
    while at < len(content):
        size, kind = struct.unpack(">I4s", content[at:at + 8])
        body = content[at + 8:at + 8 + size]
        expect_equal(zlib.crc32(kind + body), struct.unpack(">I", content[at + 8 + size:at + 12 + size])[0], kind)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    expect_equal((depth, colour), (8, 2))
    raw, rows, stride = zlib.decompress(data), [], 3 * width
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        above = rows[-1] if rows else bytes(stride)
        for x in range(stride):
            left, up = row[x - 3] if x >= 3 else 0, above[x]
            corner = above[x - 3] if x >= 3 else 0
            guess = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            row[x] = (row[x] + (0, left, up, (left + up) // 2, guess)[kind]) % 256
        rows.append(bytes(row))
    return width, height, rows


@check
def the_first_batch_is_drawn():
    """Five images in file order, in rows of two, with a white border of two pixels; the darkest pixel is black and the
    brightest white."""
    output, done = one_way("methods_cpu", ranks=1, train_batch_size=5, train_micro_batch_size_per_gpu=5,
                           data__shuffle=False, train__max_steps=1)
    expect("sample_grid.png" in done.stderr, done.stderr)
    with open(os.path.join(few(400, 4), "cifar-10-batches-bin", "data_batch_1.bin"), "rb") as file:
        images = [file.read(RECORD)[1:] for _ in range(5)]
    low, high = min(map(min, images)), max(map(max, images))
    width, height, rows = read_png(os.path.join(output, "sample_grid.png"))
    expect_equal((width, height), (2 + 2 * 34, 2 + 3 * 34))
    white, furthest = 0, 0
    for y in range(height):
        for x in range(width):
            pixel, (row, dy), (column, dx) = rows[y][3 * x:3 * x + 3], divmod(y - 2, 34), divmod(x - 2, 34)
            number = 2 * row + column
            if 0 <= dy < 32 and 0 <= dx < 32 and x >= 2 and y >= 2 and number < 5:
                exact = [255 * (images[number][1024 * c + 32 * dy + dx] - low) / (high - low) for c in range(3)]
                furthest = max(furthest, *(abs(a - b) for a, b in zip(pixel, exact)))
            else:
                expect_equal(pixel, b"\xff\xff\xff", (x, y))
                white += 1
    expect(white == width * height - 5 * 1024 and furthest <= 0.501, white, furthest)


@check
def the_picture_belongs_to_the_run():
    output = path("picture")
    one_way("methods_cpu", ranks=1, output=output, train__max_steps=4)
    file = os.path.join(output, "sample_grid.png")
    with open(file, "rb") as opened:
        drawn = opened.read()
    os.remove(file)  # the next start draws it again
    one_way("methods_cpu", ranks=1, output=output, train__max_steps=8)
    with open(file, "rb") as opened:
        expect(opened.read() == drawn, "it differs")
    with open(file, "wb") as opened:
        opened.write(b"\x89PNG\r\n\x1a\nsomeone else's")
    _, done = one_way("methods_cpu", ranks=1, output=output, train__max_steps=12)
    expect("sample_grid.png.aside" in done.stderr and os.path.exists(file + ".aside"), done.stderr)
    one_way("methods_cpu", "--reset", ranks=1, output=output, train__max_steps=2, train__sample_grid=False)
    expect(not os.path.exists(file), "--reset leaves it")
    os.makedirs(path("foreign"))
    shutil.copy(file + ".aside", path("foreign", "sample_grid.png"))
    fails(USAGE, run(*CONFIGURATIONS["methods_cpu"].words(), "--output", path("foreign"), "--set",
                     "data.path=" + few(400, 4), "--set", "data.on_corrupt=skip"), "sample_grid.png", "move it away")


main()
