"""The kernels as nvcc compiled them for each GPU, read from the program by cuobjdump and nvdisasm
(tools/install_cuobjdump.sh)."""
import concurrent.futures
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

# Bytes that a thread keeps in memory because its registers do not suffice: {architecture: {kernel: bytes}}. All other
# kernels keep everything in registers. Of grad_queries these are heads of 16 bits that are too wide for tensor cores.
STACK = {"sm_80": {"mix_grad": 8}, "sm_90a": {"grad_queries": 8}, "sm_100": {"grad_queries": 8, "pool_grad": 8}}
# These move most bytes of a step. Where the alignment allows it, they do so by 16 at a time.
WIDE = ("normalise_held", "gradients_of_held_part", "result", "statistics_of_parts", "gradient_of_x", "gradient_sums_of_parts",
        "map", "sum_part", "update", "square_sums_kernel", "copy_units", "forward_16", "grad_queries_16", "grad_keys_16")
# Attention in 16 bits multiplies on tensor cores.
MATRIX = ("forward_16", "grad_queries_16", "grad_keys_16", "grad_16")
# Blocks for which the registers of a multiprocessor must suffice, so that some compute while others wait for memory:
# (kernel, what its template's arguments match, blocks); the first that fits counts. Others need room for one.
WHOLE_PACKS = r"Li[48]ELb1E"
RESIDENT = (
    ("forward_16", r"Li128E", 4), ("forward_16", "", 3),
    ("grad_16", r"Li128E", 4), ("grad_16", "", 3),
    ("grad_keys_16", r"Li128E", 4), ("grad_keys_16", "", 3),
    ("grad_queries_16", "", 2), ("grad_queries", "", 5),
    ("statistics_of_parts", WHOLE_PACKS, 4), ("statistics_of_parts", "", 2),
    ("gradient_sums_of_parts", WHOLE_PACKS, 3), ("gradient_sums_of_parts", "", 2),
    ("result", WHOLE_PACKS, 3), ("result", "", 2),
    ("gradient_of_x", WHOLE_PACKS, 3), ("gradient_of_x", "", 2),
    ("normalise_held", r"(bfloat16|half)LNS1_6AccessE0ELi1E|IfLNS1_6AccessE0ELi[12]E", 4),
    ("normalise_held", r"(bfloat16|half)LNS1_6AccessE0ELi[23]E|IfLNS1_6AccessE0ELi[346]E", 2),
    ("gradients_of_held_part", r"((bfloat16|half)LNS1_6AccessE0ELi1E|IfLNS1_6AccessE0ELi[12]E)EELb[01]ELb0E", 3),
    ("gradients_of_held_part", r"(bfloat16|half)LNS1_6AccessE0ELi1E|IfLNS1_6AccessE0ELi[12]E", 2),
    ("gradients_of_held_part", r"((bfloat16|half)LNS1_6AccessE0ELi[23]E|IfLNS1_6AccessE0ELi[34]E)EELb[01]ELb0E", 2),
)
# Instructions that change memory atomically, and those of them that add integers.
ATOMIC = re.compile(r"((ATOM|RED)[GS]?|UTMARED\w*|UBLKRED\w*)\b")
INTEGER = re.compile(r"(ATOM|RED)[GS]?(\.E)?\.(ADD|POPC\.INC\.32)(\.STRONG\.\w+)?$")
REGISTERS, WARP, REGISTERS_AT_ONCE = 65536, 32, 8  # of a multiprocessor; of a thread, as they are given to a warp


def program_of(name):
    here = os.path.join(CONFIGS, "..", ".third_party", name, "nvidia", "cu13", "bin", name)
    program = shutil.which(name) or here
    if not os.path.exists(program):
        raise Skip("there is no %s: tools/install_cuobjdump.sh" % name)
    return program


def output_of(*command, folder=None):
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    expect_equal(done.returncode, 0, done.stderr)
    return done.stdout


def cuobjdump(*options, folder=None):
    program = program_of("cuobjdump")
    if "GPUs: CUDA" not in succeeds("--version").stdout:
        raise Skip("built without CUDA")
    return output_of(program, *options, PROGRAM, folder=folder)


def kernel(symbol):
    """The function's own name, the last of those in the symbol, each of which its length precedes."""
    name, rest = "", symbol[len("_ZN"):]
    while (length := re.match(r"\d+", rest)) is not None:
        begin = length.end()
        name, rest = rest[begin:begin + int(length.group())], rest[begin + int(length.group()):]
    return name


def form(symbol):
    """The template's arguments and the parameters, which follow the name."""
    return symbol.split(kernel(symbol), 1)[1]


@functools.lru_cache(None)
def threads_of_a_block(arch):
    """{symbol: the most threads that the kernel is compiled for}"""
    parts = re.split(r"\n\.nv\.info\.(\w+)\n", cuobjdump("-elf", "-arch", arch))
    most = re.compile(r"EIATTR_MAX_THREADS\n.*\n\s*Value:\s*(\w+) (\w+) (\w+)")
    return {symbol: functools.reduce(lambda n, side: n * int(side, 16), bound.groups(), 1) if bound else 1024
            for symbol, bound in zip(parts[1::2], map(most.search, parts[2::2]))}


@functools.lru_cache(None)
def machine_code(arch):
    """{symbol: names of its instructions, in the order of addresses}"""
    disassemble = program_of("nvdisasm")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as threads:
        cuobjdump("-xelf", arch, folder=folder)
        files = [os.path.join(folder, name) for name in os.listdir(folder)]
        if not files:
            raise Skip("built without code for " + arch)
        texts = threads.map(lambda file: output_of(disassemble, "-c", file), files)
        parts = [part for text in texts for part in re.split(r"\n\.text\.(\w+):\n", text)[1:]]
    names = re.compile(r"^ +/\*[0-9a-f]{4,}\*/ +(?:@!?\w+ +)?(\w[\w.]*)", re.MULTILINE)
    return {symbol: names.findall(code) for symbol, code in zip(parts[0::2], parts[1::2])}


@functools.lru_cache(None)
def resources():
    """(architecture, symbol, registers, bytes of stack) of each kernel"""
    arch, symbol, found = "", "", []
    for line in cuobjdump("-res-usage").splitlines():
        if of := re.match(r"arch = (\w+)", line):
            arch = of.group(1)
        elif of := re.match(r" Function (\w+):", line):
            symbol = of.group(1)
        elif of := re.search(r"REG:(\d+) STACK:(\d+) .*LOCAL:(\d+)", line):
            registers, stack, local = map(int, of.groups())
            found.append((arch, symbol, registers, stack + local))
    expect(found, "no kernel")
    return found


@check
def variables_are_in_registers():
    wrong = ["%s: %d bytes of stack in %s" % (arch, stack, symbol) for arch, symbol, _, stack in resources()
             if stack > STACK.get(arch, {}).get(kernel(symbol), 0)]
    expect(not wrong, *wrong)
    kernels = {(arch, kernel(symbol)) for arch, symbol, _, stack in resources() if stack > 0}
    listed = {(arch, name) for arch, _, _, _ in resources() for name in STACK.get(arch, {})}
    expect(listed <= kernels, "needs no stack any more", listed - kernels)


@check
def registers_suffice_for_the_resident_blocks():
    wrong, met = [], set()
    for arch, symbol, registers, _ in resources():
        threads = threads_of_a_block(arch)[symbol]
        promised = next((row for row in RESIDENT if row[0] == kernel(symbol) and re.search(row[1], form(symbol))), None)
        met.add(promised)
        blocks = promised[2] if promised else 1
        a_block = -(-threads // WARP) * WARP * -(-registers // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
        if blocks * a_block > REGISTERS:
            wrong.append("%s: %d registers, %d blocks of %d threads: %s" % (arch, registers, blocks, threads, symbol))
    expect(not wrong, *wrong)
    expect(met >= set(RESIDENT), "no kernel has this form", set(RESIDENT) - met)


def architectures():
    return sorted({arch for arch, _, _, _ in resources()})


@check
def memory_is_read_by_16_bytes_at_a_time():
    for arch in architectures():
        for name in WIDE:
            forms = [names for symbol, names in machine_code(arch).items() if kernel(symbol) == name]
            expect(any(re.match(r"LDG\..*\b128\b", each) for names in forms for each in names),
                   arch, name, "reads less at once in all its %d forms" % len(forms))


@check
def kernels_that_start_early_wait_before_they_access_memory():
    """ACQBULK waits for the previous kernel."""
    waiting = {symbol: names for symbol, names in machine_code("sm_90a").items() if "ACQBULK" in names}
    expect(waiting, "no kernel waits")
    for symbol, names in waiting.items():
        before = [name for name in names[:names.index("ACQBULK")]
                  if re.match(r"(LDG|STG|LD|ST|ATOM|ATOMG|RED|REDG|LDGSTS|UBLKCP)\b", name)]
        expect(not before, symbol, before)


@check
def tensor_cores_do_attentions_products():
    """Scalar products make and scale weights, whose exponentials are polynomials."""
    for arch in architectures():
        found = {symbol: names for symbol, names in machine_code(arch).items() if kernel(symbol) in MATRIX}
        expect_equal({kernel(symbol) for symbol in found}, set(MATRIX), arch)
        for symbol, names in sorted(found.items()):
            matrix, scalar = (sum(name.split(".")[0] in of for name in names) for of in (("HMMA", "HGMMA"), ("FFMA",)))
            width = re.search(r"(bfloat16|half)Li(\d+)E", symbol)
            print("  %s, %s<%s, %s>: %d HMMA, %d FFMA" % (arch, kernel(symbol), *width.groups(), matrix, scalar))
            # An HMMA of a warp is 16 x 8 x 16 products, an FFMA 32.
            expect(matrix * 16 * 8 * 16 >= 4 * scalar * 32, arch, symbol, matrix, scalar)


@check
def no_sum_depends_on_which_thread_comes_first():
    """Atomic additions are of integers: counters and tickets."""
    for arch in architectures():
        for symbol, names in machine_code(arch).items():
            floats = {name for name in names if ATOMIC.match(name) and not INTEGER.match(name)}
            expect(not floats, arch, symbol, floats)


main()
