#!/usr/bin/env python3
"""The architecture's floors, checked: a file includes only lower floors (or its own folder).

usage: check_floors.py [TREE]

Floors are the folders of src/, numbered below; on floor 5 comm may include device. kernels/ is a leaf that only
device/cuda may use; its files include their own headers, CUDA's and the standard library's, and of src/ the plain headers,
which include nothing but the standard library and plain headers. CUDA, NCCL, MPI, UCX and oneDNN
are known only to the files named for them: elsewhere no #if may name them and no header of theirs be included; CMake
selects the files instead. Prints one line per offence; exits with 1 if there is any.
"""
import pathlib
import re
import sys

FLOORS = {"base": 0, "tensor": 1, "graph": 2, "optim": 3, "plan": 4, "device": 5, "comm": 5, "selftest": 6,
          "engine": 6, "model": 7, "data": 7, "checkpoint": 7, "metrics": 7, "onnx": 7, "train": 8, "fetch": 8,
          "deepspeed": 9, "cli": 10}
SAME_FLOOR = {("comm", "device")}
SUFFIXES = {".h", ".hpp", ".cpp", ".cc", ".inc", ".cu", ".cuh"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CONDITION = re.compile(r"^\s*#\s*(?:el)?if(?:n?def)?\b(.*)")
LIBRARY = re.compile(r"(?<![A-Za-z])(CUDA|CUDNN|CUBLAS\w*|NVCC|NCCL|O?MPI|UC[XPS]|DNNL|ONEDNN)(?![A-Za-z])", re.IGNORECASE)
LIBRARY_HEADER = re.compile(r"^(mpi|mpi-ext|nccl|dnnl\w*|cuda\w*|cudnn\w*|cublas\w*|nvml)\.(h|hpp)$|^(oneapi/dnnl|uc[pst]|curl)/")
CUDA_HEADER = re.compile(r"^(cuda|math_)\w*\.h$")
LIBRARY_FILE = re.compile(r"^(no_|mpi|ucx|onednn|nccl|cuda|curl)")


def may_name_libraries(path):
    return path.parts[0] == "kernels" or path.parts[:3] == ("src", "device", "cuda") or LIBRARY_FILE.match(path.name)


def is_plain(tree, target):
    """Does this header of src/ include only the standard library and such headers? Kernels may include it."""
    file = tree / "src" / target
    includes = INCLUDE.findall(file.read_text(encoding="utf-8")) if file.suffix == ".h" and file.is_file() else [("", "")]
    return all(re.fullmatch(r"\w+", name) if quote == "<" else "/" in name and is_plain(tree, name)
               for quote, name in includes)


def include_offence(tree, path, quote, target):
    """The reason why this include is wrong, or None. path is relative to the tree."""
    if LIBRARY_HEADER.search(target) and not may_name_libraries(path):
        return f"<{target}> belongs in the files named for that library (mpi*, ucx*, onednn*, nccl*, curl*, device/cuda)"
    folder = target.split("/")[0]
    if path.parts[0] == "kernels":
        own = quote == '"' and "/" not in target and not target.startswith("cuda")
        system = quote == "<" and (re.fullmatch(r"\w+", target) or CUDA_HEADER.match(target))
        plain = quote == '"' and folder in FLOORS and is_plain(tree, target)
        return None if own or system or plain else f'"{target}": kernels/ is a leaf, which sees plain headers of src/ only'
    if quote == "<" or folder == "hwy":  # Highway's own tools require quotes
        return None
    if folder == "kernels":
        uses = path.parts[:3] == ("src", "device", "cuda") or path.name.startswith("nccl")
        return None if uses else f'"{target}": only device/cuda and nccl* use kernels/'
    if folder not in FLOORS or "/" not in target or ".." in target.split("/"):
        return f'"{target}" is no path from src/ (write "floor/file.h"; libraries go in angle brackets)'
    here = path.parts[1]
    if folder == here or FLOORS[folder] < FLOORS[here] or (here, folder) in SAME_FLOOR:
        return None
    return f'"{target}": {here} (floor {FLOORS[here]}) may not include {folder} (floor {FLOORS[folder]})'


def offences(tree, path, text):
    if path.parts[0] == "src" and (len(path.parts) < 3 or path.parts[1] not in FLOORS):
        yield 1, f"lies on no floor; the floors are {' '.join(FLOORS)}"
        return
    continued = False
    for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if include:
            reason = include_offence(tree, path, *include.groups())
            if reason:
                yield number, reason
        condition = CONDITION.match(line)
        named = LIBRARY.search(line if continued else condition.group(1)) if condition or continued else None
        if named and not may_name_libraries(path):
            yield number, f"#if names {named.group(0)}: put the difference into a file that CMake picks (no_*, mpi*, onednn*)"
        continued = bool(condition or continued) and line.rstrip().endswith("\\")


def main():
    tree = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    files = [p for top in ("src", "kernels") for p in sorted((tree / top).rglob("*")) if p.suffix in SUFFIXES]
    if not files:
        print(f"error: check_floors: no source files under {tree}", file=sys.stderr)
        return 2
    count = 0
    for file in files:
        for number, reason in offences(tree, file.relative_to(tree), file.read_text(encoding="utf-8", errors="replace")):
            print(f"{file.relative_to(tree)}:{number}: {reason}")
            count += 1
    print(f"check_floors: {len(files)} files, {count} offences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
