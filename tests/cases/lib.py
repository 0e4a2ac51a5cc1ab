"""For the cases in Python, and a few commands for those in bash (python lib.py COMMAND ...).

Nothing here comes from the program under test: safetensors files, the values of `generate` and the cuts of a layout are
read, made and computed anew, from the documents of the formats and of the layouts.
"""
import atexit
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
TABLES = TOP / "tests/tables"

# Our name, safetensors' name, bytes. numpy has no bf16 or fp8: elements are compared as bit patterns.
DTYPES = {
    "f64": ("F64", 8), "f32": ("F32", 4), "f16": ("F16", 2), "bf16": ("BF16", 2), "f8_e4m3": ("F8_E4M3", 1),
    "f8_e5m2": ("F8_E5M2", 1), "i64": ("I64", 8), "i32": ("I32", 4), "i16": ("I16", 2), "i8": ("I8", 1),
    "u64": ("U64", 8), "u32": ("U32", 4), "u16": ("U16", 2), "u8": ("U8", 1), "bool": ("BOOL", 1),
}
SIZE_OF = {name: size for name, size in DTYPES.values()}


def bits(size):
    return np.dtype(f"<u{size}")


# ---- running the program --------------------------------------------------------------------------------------------

def fail(message):
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(1)


def check(holds, message):
    if not holds:
        fail(message)


def program():
    build = Path(os.environ.get("BUILD") or TOP / "build/release")
    return os.environ.get("SLABLOAD") or str((TOP / build).resolve() / "slabload")


def environment():
    text = subprocess.run(["bash", "-c", 'source "$0" && env -0', str(TOP / "tests/tools/env.sh")], check=True,
                          capture_output=True, text=True).stdout
    return dict(item.split("=", 1) for item in text.split("\0") if "=" in item)


def work_folder():
    folder = Path(tempfile.mkdtemp(prefix="slabload-case.", dir=os.environ.get("TMPDIR")))
    atexit.register(shutil.rmtree, folder, True)
    os.chdir(folder)
    return folder


def unmount(folder):
    """Waits for processes that mpirun ended and did not wait for: they may hold files there for a moment."""
    for _ in range(150):
        done = subprocess.run(["umount", folder], capture_output=True, text=True)
        if done.returncode == 0:
            return
        time.sleep(0.1)
    fail(done.stderr.strip())


_environment = None


class Run:
    """What a program printed and returned."""

    def __init__(self, ranks, arguments, status=0, limit=60):
        global _environment
        _environment = _environment or environment()
        start = [] if ranks == 0 else [*os.environ.get("MPIRUN", "mpirun").split(), "-n", str(ranks)]
        command = ["timeout", "-k", "5", str(limit), *start, program(), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=_environment)
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        if status is not None and self.status != status:
            print(" ".join(command), self.out[-3000:], self.err[-3000:], sep="\n", file=sys.stderr)
            fail(f"exit status {self.status}, expected {status}")


# ---- safetensors ----------------------------------------------------------------------------------------------------

def read_safetensors(path):
    """{name: (safetensors dtype, shape, elements as bit patterns)}, metadata. Strict about what the format promises."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = memoryview(data)[8 + length:]
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        shape, dtype = tuple(entry["shape"]), entry["dtype"]
        check(begin == end, f"{path}: {name} begins at {begin}, the one before ends at {end}")
        check(stop - begin == int(np.prod(shape, dtype=object)) * SIZE_OF[dtype], f"{path}: {name}: wrong number of bytes")
        tensors[name] = (dtype, shape, np.frombuffer(body[begin:stop], bits(SIZE_OF[dtype])).reshape(shape))
        end = stop
    check(end == len(body), f"{path}: {len(body) - end} bytes after the last tensor")
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    """tensors: {name: (safetensors dtype, array of bit patterns)}"""
    header, body = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, values) in tensors.items():
        raw = np.ascontiguousarray(values, bits(SIZE_OF[dtype])).tobytes()
        header[name] = {"dtype": dtype, "shape": list(np.shape(values)), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


# ---- the values of `generate` ---------------------------------------------------------------------------------------

MASK = (1 << 64) - 1
# exponent bits, mantissa bits, and whether the format has infinities
FLOATS = {"f64": (11, 52, 1), "f32": (8, 23, 1), "f16": (5, 10, 1), "bf16": (8, 7, 1), "f8_e5m2": (5, 2, 1), "f8_e4m3": (4, 3, 0)}


def mix(x):
    with np.errstate(over="ignore"):
        z = np.asarray(x, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def synthetic(seed, name, dtype, shape):
    """The whole tensor as bit patterns, by the formula documented in src/tensor/synthetic.h."""
    key = 14695981039346656037 ^ int(mix(seed))
    for byte in name.encode():
        key = ((key ^ byte) * 1099511628211) & MASK
    size = DTYPES[dtype][1]
    count = int(np.prod(shape, dtype=object))
    with np.errstate(over="ignore"):
        words = mix(np.uint64(key) + np.arange(-(-count * size // 8), dtype=np.uint64))
    lanes = words.astype("<u8").view(bits(size))[:count].copy()
    if dtype == "bool":
        lanes &= 1
    elif dtype in FLOATS:
        exponent, mantissa, infinities = FLOATS[dtype]
        magnitude = lanes & lanes.dtype.type((1 << (exponent + mantissa)) - 1)
        infinity = ((1 << exponent) - 1) << mantissa
        nan = magnitude > infinity if infinities else magnitude == infinity | ((1 << mantissa) - 1)
        lanes[nan] &= lanes.dtype.type(((1 << 8 * size) - 1) ^ (1 << (exponent + mantissa - 1)))
    return lanes.reshape(shape)


def read_table(path):
    """[(name, dtype, shape)]"""
    rows = []
    for line in Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            name, dtype, shape = line.split("\t")
            rows.append((name, dtype, tuple(int(n) for n in shape.split(",")) if shape else ()))
    return rows


def scaled(shape, scale):
    return tuple(-(-n // scale) if n > scale else n for n in shape)


# ---- layouts --------------------------------------------------------------------------------------------------------

def coordinate_of(rank, mesh):
    """mesh: [(axis, size)], outermost first, the last varies fastest."""
    at = []
    for _, size in reversed(mesh):
        at.insert(0, rank % size)
        rank //= size
    return at


def cut(shape, mesh, coordinate, placements):
    """(offset, extent) of a rank's part; placements: {axis: dimension}, axes that are not there replicate."""
    offset, extent = [0] * len(shape), list(shape)
    for (axis, size), r in zip(mesh, coordinate):
        if axis not in placements:
            continue
        d = placements[axis] % len(shape)
        part = -(-extent[d] // size)
        begin, end = min(r * part, extent[d]), min((r + 1) * part, extent[d])
        offset[d], extent[d] = (offset[d] + begin, end - begin)
        if extent[d] == 0:
            offset[d] = shape[d]
    return tuple(offset), tuple(extent)


# ---- commands for the cases in bash ---------------------------------------------------------------------------------

READ = re.compile(r"^(?:\d+ +)?(read|pread64|readv|preadv|preadv2)\(\d+<([^>]*)>.*\) += (\d+)")


def traced_reads(path, traces):
    """[(calls, bytes)] that each `strace -y` log shows for the file."""
    path = os.path.realpath(path)
    out = []
    for trace in traces:
        calls = total = 0
        for line in Path(trace).read_text(errors="replace").splitlines():
            found = READ.match(line)
            if found and found[2] == path:
                calls, total = calls + 1, total + int(found[3])
        out.append((calls, total))
    return out


def main(command, *arguments):
    if command == "reads":  # FILE TRACE...: a line "calls bytes" for each trace
        for calls, total in traced_reads(arguments[0], arguments[1:]):
            print(calls, total)
    elif command == "flip":  # FILE TENSOR: changes one bit in the middle of a contiguous dataset
        import h5py
        with h5py.File(arguments[0], "r") as file:
            dataset = file[arguments[1]]
            at = dataset.id.get_offset() + dataset.id.get_storage_size() // 2
        with open(arguments[0], "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x10]))
        print(at)
    else:
        fail(f"no command {command}")


if __name__ == "__main__":
    main(*sys.argv[1:])
