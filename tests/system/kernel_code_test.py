"""The kernels as nvcc compiled them for each GPU, read from the program by cuobjdump (tools/install_cuobjdump.sh)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

# Bytes that a thread keeps in memory because its registers do not suffice, or because it addresses an array by a number:
# {architecture: {kernel: bytes}}. All other kernels keep everything in registers.
STACK = {
    "sm_80": {"grad_queries": 32, "gradient_sums_of_parts": 8, "gradients_of_part": 8, "mix_grad": 8,
              "logits_grad": 48},
    "sm_90a": {"grad_queries": 8, "forward_16": 8, "logits_grad": 32},
    "sm_100": {"grad_queries": 8, "gradient_sums_of_parts": 64, "gradients_of_held_part": 112, "normalise_held": 32,
               "edit_images": 24, "logits_grad": 32, "place": 8, "pool_grad": 8},
}
# These move most bytes of a step. Where the alignment allows it, they do so by 16 at a time.
WIDE = ("normalise_held", "gradients_of_held_part", "result", "statistics_of_parts", "gradient_of_x", "gradient_sums_of_parts",
        "map", "sum_part", "update", "square_sums_kernel", "copy_units", "forward_16", "grad_queries_16", "grad_keys_16")
# Attention in 16 bits multiplies on tensor cores.
MATRIX = ("forward_16", "grad_queries_16", "grad_keys_16", "grad_16")


def cuobjdump(*options):
    here = os.path.join(CONFIGS, "..", ".third_party", "cuobjdump", "nvidia", "cu13", "bin", "cuobjdump")
    program = shutil.which("cuobjdump") or here
    if not os.path.exists(program):
        raise Skip("there is no cuobjdump: tools/install_cuobjdump.sh")
    if "GPUs: CUDA" not in succeeds("--version").stdout:
        raise Skip("built without CUDA")
    done = subprocess.run([program, *options, PROGRAM], capture_output=True, text=True)
    expect_equal(done.returncode, 0, done.stderr)
    return done.stdout


def kernel(symbol):
    """The function's own name, the last of those in the symbol, each of which its length precedes."""
    name, rest = "", symbol[len("_ZN"):]
    while (length := re.match(r"\d+", rest)) is not None:
        begin = length.end()
        name, rest = rest[begin:begin + int(length.group())], rest[begin + int(length.group()):]
    return name


@functools.lru_cache(None)
def intermediate_code():
    """{symbol: PTX}"""
    parts = re.split(r"\.entry (\w+)\(", cuobjdump("-ptx", "-arch", "sm_80"))
    if len(parts) == 1:
        raise Skip("built without PTX for sm_80")
    return dict(zip(parts[1::2], parts[2::2]))


@check
def variables_are_in_registers():
    arch, symbol, kernels, wrong = "", "", set(), []
    for line in cuobjdump("-res-usage").splitlines():
        if found := re.match(r"arch = (\w+)", line):
            arch = found.group(1)
        elif found := re.match(r" Function (\w+):", line):
            symbol = found.group(1)
        elif found := re.search(r"STACK:(\d+) .*LOCAL:(\d+)", line):
            kernels.add((arch, kernel(symbol)))
            bytes_of_stack = sum(map(int, found.groups()))
            if bytes_of_stack > STACK.get(arch, {}).get(kernel(symbol), 0):
                wrong.append("%s: %d bytes of stack in %s" % (arch, bytes_of_stack, symbol))
    expect(not wrong, *wrong)
    listed = {(arch, name) for arch, _ in kernels for name in STACK.get(arch, {})}
    expect(listed <= kernels, "no kernel has this name", listed - kernels)


@check
def memory_is_read_by_16_bytes_at_a_time():
    for name in WIDE:
        wide = [bool(re.search(r"ld\.global\S*\.v4\.[fu]32", code)) for symbol, code in intermediate_code().items()
                if kernel(symbol) == name]
        expect(any(wide), name, "reads less at once in all its %d forms" % len(wide))


@check
def attention_is_on_tensor_cores():
    for name in MATRIX:
        forms = [code for symbol, code in intermediate_code().items() if kernel(symbol) == name]
        expect(forms and all("mma.sync" in code for code in forms), name)


@check
def no_sum_depends_on_which_thread_comes_first():
    """Atomic additions are of integers: counters and tickets."""
    for symbol, code in intermediate_code().items():
        found = set(re.findall(r"\b(?:atom|red)\.\S+", code)) - {"atom.global.add.u32", "atom.shared.add.u32"}
        expect(not found, symbol, found)


main()
