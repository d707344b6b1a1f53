"""Completion of words: by bash, zsh and fish on a terminal, where they are installed, and what their scripts are told."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from terminal import Terminal

TAB, CLEAR = "\t", "\x15"


@functools.lru_cache(None)
def folder():
    """A user's folder: a configuration with a blank in its name, other files, a run's folder."""
    os.makedirs(path("here", "runs", "one"))
    os.makedirs(path("here", "bin"))
    os.makedirs(path("here", "sp dir"))
    os.symlink(PROGRAM, path("here", "bin", "cifar-train"))
    for name in ("my own.yaml", "my notes.txt", "weights.bin", "rules.txt", "sp dir/weights.bin"):
        with open(path("here", name), "w") as file:
            file.write("{}\n")
    return path("here")


def completed(*words):
    """{word: description} that may come next, and what files besides."""
    lines = good("__complete", *words).splitlines()
    files = [line for line in lines if line.startswith(":")]
    return dict(line.split("\t") for line in lines if not line.startswith(":")), "".join(files)


def words_after(*words):
    return sorted(completed(*words)[0])


def in_shell(shell, words, begin):
    """Types words in a shell and reads what TAB makes of them. Of several words that fit all are listed, in bash at the
    second TAB."""
    if not shutil.which(shell):
        raise Skip("%s is not installed" % shell)
    folder()
    env = {"PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"], "TERM": "xterm", "HOME": path("here"),
           "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": path("here"), "XDG_DATA_HOME": path("here")}
    terminal = Terminal(words, env=env, cwd=folder())
    try:
        terminal.type(begin + "; echo rea''dy\n", r"[\r\n]ready")
        def shows(typed, *patterns, keys=TAB):
            terminal.type(CLEAR + "cifar-train " + typed + keys, *patterns)
        def lists(typed, *patterns):
            shows(typed, *patterns, keys=TAB + TAB)
        shows("rep", r"cifar-train report ")
        shows("ckpt pr", r"ckpt prune ")
        lists("data s", r"synth ") if shell != "bash" else shows("data s", r"data synth ")
        lists("", r"\bjobscript\b", r"\bdoctor\b", r"\bcompletion\b")
        shows("train --pretr", r"train --pretrained ")
        shows("--set train.ep", r"--set train\.epochs=")
        shows("--set optimizer.t", r"--set optimizer\.type=")
        shows("--set wall_clock_breakdown=t", r"breakdown=true ")
        lists("--set optimizer.type=Ada", r"Adagrad", r"AdamW")
        lists("eval --split ", r"test +train +val")  # words without descriptions
        shows("sweep --grid model.name=linear,resnet1", r"linear,resnet1(8|01|52)?")
        shows("sweep --grid scheduler.type=WarmupLR,OneC", r"=WarmupLR,OneCycle ")
        shows("eval --split=v", r"--split=val ")
        shows("--config resnet18_", r"--config resnet18_imagenet\.yaml ")
        shows("--config \"resnet18_", r"--config \"resnet18_imagenet\.yaml\" ")
        shows("--set 'optimizer.type=Adag", r"--set 'optimizer\.type=Adagrad' ")
        shows("--set \"optimizer.t", r"--set \"optimizer\.type=")
        shows("eval --ckpt \"sp dir/we", r"--ckpt \"sp dir/weights\.bin\" ")
        shows("--config my", r"--config ('my own.yaml'|my\\ own\.yaml|\"my own\.yaml\") ?")
        shows("eval --ckpt weig", r"--ckpt weights\.bin ")
        shows("eval --ckpt=weig", r"--ckpt=weights\.bin")
        shows("--set data.path=weig", r"data\.path=weights\.bin")
        shows(r"eval --ckpt sp\ dir/we", r"sp\\ dir/weights\.bin ")
        shows("report ru", r"report runs/")  # not rules.txt, which is no folder
        shows("doctor --js", r"doctor --json ")
        text = terminal.type(CLEAR + "~/bin/cifar-train rep" + TAB, r"cifar-train report ")
        expect_not_in("Unknown command", text)
    finally:
        terminal.close()


@check
def bash_completes():
    in_shell("bash", ["bash", "--norc", "--noprofile", "-i"], "source <(cifar-train completion bash)")


@check
def zsh_completes():
    in_shell("zsh", ["zsh", "-f", "-i"],
             "PS1='> '; autoload -Uz compinit; compinit -u -D; source <(cifar-train completion zsh)")


@check
def fish_completes():
    in_shell("fish", ["fish", "--no-config", "--private", "-i"],
             "set -g fish_autosuggestion_enabled 0; cifar-train completion fish | source")


@check
def a_script_for_each_shell():
    for shell in ("bash", "zsh", "fish"):
        script = good("completion", shell)
        expect_in("__complete", script)
        if shutil.which(shell):
            with open(path("script." + shell), "w") as file:
                file.write(script)
            done = subprocess.run([shell, "-n", path("script." + shell)], capture_output=True, text=True)
            expect_equal((done.returncode, done.stderr), (0, ""))
    bad(USAGE, "SHELL", "completion", "tcsh")
    bad(USAGE, "SHELL is required", "completion")


@check
def verbs_and_their_commands():
    helped = re.findall(r"(?m)^  (\S+)  ", good("--help"))
    expect_equal(words_after(""), sorted([*helped, "help"]))
    expect_equal(words_after("help", ""), sorted(helped))
    expect_equal(words_after("help", "data", "f"), ["fetch"])
    for whole in ("data", "fetch"), ("train",):
        expect_equal(words_after("help", *whole, ""), [])
    expect_equal(words_after("ckpt", ""), ["diff", "inspect", "ls", "prune", "verify"])
    expect_equal(words_after("ckpt", "v"), ["verify"])
    expect_equal(words_after("nonsense", ""), [])
    expect_equal(completed("repo")[0]["report"], "curves, results and settings of runs, as one HTML file")


@check
def options_are_those_of_help():
    for verb in (["train"], ["eval"], ["sweep"], ["report"], ["data", "convert"], ["ckpt", "prune"], ["launch"]):
        helped = re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", good(*verb, "--help"))
        expect(set(helped) <= set(words_after(*verb, "--")), helped, words_after(*verb, "--"))
    expect_in("--epochs", words_after("--"))  # training is the default verb
    expect_in("--version", words_after("--v"))
    expect_equal(words_after("train", "--batch_"), ["--batch_size"])
    expect_not_in("--progress-fd", words_after("train", "--"))  # which no help lists
    expect_in("--lr", words_after("launch", "--num_gpus", 2, "--"))


@check
def values_of_options():
    for words, wanted in [(["eval", "--split", ""], ["test", "train", "val"]), (["--device", ""], ["auto", "cpu", "cuda"]),
                          (["--resume", "m"], ["must"]), (["--init-head=k"], ["--init-head=keep"]), (["bench", "u"], ["update"]),
                          (["--model", "resnet1"], ["resnet101", "resnet152", "resnet18"]), (["--epochs", ""], []),
                          (["--stage", ""], ["0", "1", "2", "3"]),
                          (["data", "info", "--dataset", "cifar"], ["cifar10", "cifar100"]),
                          (["data", "verify", "--dataset", "cifar"], ["cifar10", "cifar100"]),
                          (["completion", ""], ["bash", "fish", "zsh"]), (["launch", "--launcher", "s"], ["slurm"])]:
        expect_equal(words_after(*words), wanted, words)
    for words, wanted in [(["--resume", "runs/"], ":files"), (["report", ""], ":folders"), (["eval", "--ckpt", ""], ":files"),
                          (["--output", ""], ":folders"), (["export", "--out", ""], ":files"), (["--epochs", ""], ""), (["report", "a", ""], ":folders"),
                          (["eval", "a", ""], ""), (["predict", "--ckpt", "a", "b.jpg", ""], ":files")]:
        expect_equal(completed(*words)[1], wanted, words)


@check
def keys_and_their_values():
    found = words_after("--set", "")
    expect("train." in found and "seed=" in found and "train.epochs=" not in found, found)
    keys = set()
    def visit(block):  # every key of the schema that is no other program's
        for word in words_after("--set", block):
            visit(word) if word.endswith(".") else keys.add(word[:-1])
    visit("")
    expect({"train.epochs", "optimizer.params.lr", "zero_optimization.stage", "fp16.enabled", "data.normalize.mean"} <= keys, keys)
    for setting, values in [("zero_optimization.stage=", ["0", "1", "2", "3"]), ("fp16.enabled=", ["false", "true"]),
                            ("bf16.enabled=", ["auto", "false", "true"]), ("train.best.split=", ["last", "test", "val"]),
                            ("scheduler.type=Warmup", ["WarmupCosineLR", "WarmupDecayLR", "WarmupLR"]), ("nonsense=", [])]:
        expect_equal([w.split("=")[1] for w in words_after("--set", setting)], values, setting)
    expect_equal(completed("--set", "data.path=")[1], ":files")
    expect_equal(words_after("sweep", "--grid", "fp16.enabled=true,f"), ["fp16.enabled=true,false"])


@check
def configurations():
    def named(typed):
        done = finish(start([PROGRAM, "__complete", "--config", typed], cwd=folder()))
        return sorted(line.split("\t")[0] for line in done.stdout.splitlines())
    expect("default.yaml" in named("") and "seeds/imagenet.yaml" in named("") and "my own.yaml" in named(""), named(""))
    expect("runs/" in named("") and "rules.txt" not in named(""), named(""))
    expect_equal(named("my"), ["my own.yaml"])
    expect_equal(named(folder() + "/my"), [folder() + "/my own.yaml"])
    expect_equal(named("~/"), [":files"])
    expect_equal(named("/nowhere/"), [])


@check
def it_is_as_fast_as_help():
    begin = time.monotonic()
    for _ in range(5):
        good("__complete", "--set", "train.")
    expect((time.monotonic() - begin) / 5 < 0.5, time.monotonic() - begin)


main()
