"""Damage to numbers in the memory of one of several ranks while a run computes: a flipped bit, a number that is none.
Elsewhere: losses that are not finite (errors_test: divergence), weights and moments that are not (foreign_weights_test,
best_test, save_test.cpp), fp16's overflows (cuda_ranks_test, loss_scale_test.cpp)."""
import contextlib
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

TENSOR = "fc1.bias"  # whose layout in memory is the file's
# Weights stay as they are, so that their bytes are known at every moment.
STILL = {**FEW, "optimizer.type": "SGD", "optimizer.params": "{lr: 0}", "scheduler": "{}", "train.epochs": 10 ** 6,
         "train.max_steps": 10 ** 6, "train.save_interval": 10 ** 6, "train.eval_interval": 10 ** 6, "train_batch_size": 48}


def changed_in_memory(pid, content, place, new):
    """Writes `new` over the beginning of a process's copies of `content`; of copies that ranks share as one memory, of
    that at `place`. Returns whether there is one."""
    found = False
    with contextlib.suppress(OSError):  # it is ending because of the first
        with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "r+b", buffering=0) as memory:
            for line in maps:
                span, rights, *_ = line.split()
                if not rights.startswith("rw"):
                    continue
                begin, end = (int(at, 16) for at in span.split("-"))
                if begin >> 63:  # the kernel's
                    continue
                memory.seek(begin)
                area = memory.read(end - begin)
                places = [match.start() for match in re.finditer(re.escape(content), area)]
                for at in places[place:place + 1] if rights.endswith("s") else places:
                    memory.seek(begin + at)
                    memory.write(new)
                    found = True
    return found


def a_flipped_bit(ranks, odd, stage, interval):
    """The job that ended because of it. In stages 1 and 2 damage during the exchange of updated weights is replaced by
    them, so that it may take several."""
    output = path("flip-%d-%d-%d" % (ranks, odd, stage))
    sets = {**STILL, "data.path": few(), "zero_optimization.stage": stage, "communication.check_interval": interval}
    job = start(Ranks(ranks, mpi=True).words(*train_words(output, sets)))
    wait_for_step(output, job, at_least=3)
    weights, _ = safetensors(os.path.join(output, "ckpt", "step-00000000", "weights.safetensors"))
    of_rank = {rank_of(pid): pid for pid in ranks_of(job)}
    content = weights[TENSOR][2][128:192]
    flipped = bytes([content[0] ^ 1])
    expect(changed_in_memory(of_rank[odd], content, odd, flipped), "the weights are not found in memory")
    end = time.monotonic() + 30
    while stage > 0 and job.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
        changed_in_memory(of_rank[odd], content, odd, flipped)
    return finish(job, timeout=30)


@check
def a_flipped_bit_of_a_weight_is_found_with_its_tensor_and_rank():
    need_mpi()
    for ranks, odd, stage, interval in [(3, 1, 0, 7), (3, 0, 1, 1), (4, 0, 2, 1)]:
        line = fails(BUG, a_flipped_bit(ranks, odd, stage, interval), "its copy of %s differs" % TENSOR, "most ranks")
        expect("rank %d " % odd in line, line)
    fails(BUG, a_flipped_bit(2, 1, 0, 7), "its copy of %s differs" % TENSOR, "no majority")


@check
def a_number_that_is_none_in_one_rank_skips_the_step_on_all():
    """One of three ranks has it among its weights from some step on, so its activations, its loss and its gradients have
    it too. Three such steps end the run, and all that it has saved are the weights before."""
    need_mpi()
    train(path("still"), {**STILL, "data.path": few(), "train.max_steps": 0})
    for number in (math.nan, math.inf):
        output = path("none-%r" % number)
        sets = {**STILL, "data.path": few(), "train.eval_interval": 5, "train.save_interval": 1, "train.best.split": "test",
                "communication.check_interval": 0}
        job = start(Ranks(3, mpi=True).words(*train_words(output, sets)))
        wait_for_step(output, job, at_least=6)
        content = safetensors(os.path.join(output, "best.bin"))[0][TENSOR][2][128:192]
        of_rank = {rank_of(pid): pid for pid in ranks_of(job)}
        expect(changed_in_memory(of_rank[1], content, 1, struct.pack("<f", number)), "the weights are not found in memory")
        done = finish(job, timeout=60)
        fails(DIVERGED, done, "3 steps in a row")
        steps = records(output, "step")
        expect_equal([r["skipped"] for r in steps][-4:], [0, 1, 2, 3])
        succeeds("ckpt", "verify", output)
        names = [os.path.join("ckpt", "step-%08d" % step, "weights.safetensors") for step in checkpoints(output)]
        expect(names, output)
        hashes = {weights_sha256(os.path.join(output, name)) for name in ["best.bin", *names]}
        expect_equal(hashes, {weights_sha256(os.path.join(path("still"), "last.bin"))})


main()
