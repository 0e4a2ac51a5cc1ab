"""Files made to harm: each ends in one line and an exit status within seconds, in little memory, and no process is left; and
what is merely odd (100,000 links, names with newlines or dots) is read as it is."""
import json
import os
import resource
import struct
import time
import zlib

import h5py
import numpy as np

from lib import Run, check, read_safetensors, work_folder

work = work_folder()
tried = 0


def plain(name="plain.h5"):
    """A small file in the oldest layout of HDF5, whose parts have signatures to be found by."""
    with h5py.File(name, "w", libver="earliest") as file:
        file["a"] = np.arange(64, dtype="<f4")
        file["b"] = np.arange(64, dtype="<f4") + 1
        file["g/c"] = np.arange(6, dtype="<i4")
        file.create_dataset("chunked", data=np.arange(100, dtype="<i4").reshape(10, 10), chunks=(5, 10), compression="gzip")
        places = {key: file[key].id.get_offset() for key in "ab"}
    return bytearray(open(name, "rb").read()), places


def once(data, pattern, start=0):
    at = data.find(pattern, start)
    check(at >= 0, f"{pattern} is not in the file")
    return at


def put(data, at, form, *values):
    data[at:at + struct.calcsize(form)] = struct.pack(form, *values)


def refused(what, data, words, status=3, ranks=(0, 2)):
    """`inspect` alone and `load` on two ranks say the same, in one line, soon."""
    global tried
    if isinstance(data, (bytes, bytearray)):
        open("hostile.h5", "wb").write(data)
    for count in ranks:
        began = time.monotonic()
        verb = ["load", "hostile.h5", "--timeout", "10s"] if count else ["inspect", "hostile.h5"]
        run = Run(count, verb, status=None, limit=40)
        lines = [line for line in run.err.splitlines() if "slabload: error" in line]
        check(run.status == status, f"{what}: exit status {run.status}, expected {status}: {run.err[-500:]}")
        check(len(lines) == 1 and any(word in lines[0] for word in words), f"{what}: {run.err[-800:]} does not say {words}")
        check(time.monotonic() - began < 30, f"{what}: took {time.monotonic() - began:.0f} s")
    tried += 1


def taken(what, data, tensors):
    """Read, with that many tensors."""
    global tried
    if isinstance(data, (bytes, bytearray)):
        open("hostile.h5", "wb").write(data)
    report = json.loads(Run(0, ["inspect", "hostile.h5", "--json", "--tensors"], limit=40).out)
    check(len(report["tensors"]) == tensors, f"{what}: {len(report['tensors'])} tensors, expected {tensors}")
    tried += 1
    return report


def left_out(what, data, words, name):
    """The library itself refuses the file, or `name` is listed as no tensor, with its reason."""
    global tried
    if isinstance(data, (bytes, bytearray)):
        open("hostile.h5", "wb").write(data)
    run = Run(0, ["inspect", "hostile.h5", "--json", "--tensors"], status=None, limit=40)
    if run.status == 0:
        reasons = {entry["name"]: entry["reason"] for entry in json.loads(run.out)["skipped"]}
        check(name in reasons and any(word in reasons[name] for word in words), f"{what}: {reasons}")
    else:
        lines = run.err.splitlines()
        check(run.status == 3 and len(lines) == 1 and "hostile.h5" in lines[0], f"{what}: {run.status}: {run.err[-500:]}")
    tried += 1


CRASHED = ("crashed (signal", "did not end within", "needs more than", "failed", "damaged", "cannot be opened")
good, place = plain()
taken("the plain file", good, 4)

# ---- extents -----------------------------------------------------------------------------------------------------------
layout = {key: once(good, struct.pack("<QQ", place[key], 256)) for key in "ab"}
data = bytearray(good)
put(data, layout["b"], "<Q", place["a"] + 100)
refused("extents that overlap", data, ["overlap"])
put(data, layout["b"], "<Q", 1 << 60)
refused("an offset beyond the file", data, ["ends at byte", "failed"])
put(data, layout["b"], "<Q", (1 << 64) - 100)
refused("an offset that overflows", data, CRASHED)
data = bytearray(good)
put(data, layout["b"] + 8, "<Q", 8)
left_out("fewer bytes than the shape asks for", data, ["8 bytes allocated for 256"], "b")

# ---- dimensions ----------------------------------------------------------------------------------------------------------
dims = once(good, struct.pack("<QQQQ", 10, 10, 10, 10))
for rows, columns in ((1 << 40, 1 << 40), (1 << 63, 3), ((1 << 64) - 1, (1 << 64) - 1)):
    data = bytearray(good)
    put(data, dims, "<QQQQ", rows, columns, rows, columns)
    left_out("a product that overflows", data, ["beyond 64-bit"], "chunked")
with h5py.File("hostile.h5", "w") as file:
    file.create_dataset("huge", (1 << 25, 1 << 24), "<f8", chunks=(1024, 1024))
    file["small"] = np.arange(3.0)
left_out("4 PiB in a file of some kB", None, ["nothing of it is in the file"], "huge")

# ---- structure that leads nowhere, or round and round --------------------------------------------------------------------
tree, heap = once(good, b"TREE"), once(good, b"HEAP")
data = bytearray(good)
put(data, tree + 5, "<B", 3)
put(data, tree + 32, "<Q", tree)
refused("a tree that is its own child", data, CRASHED)
data = bytearray(good)
put(data, tree + 6, "<H", 65535)
refused("a tree with 65535 entries", data, CRASHED)
data = bytearray(good)
segment = struct.unpack_from("<Q", data, heap + 24)[0]
put(data, heap + 16, "<Q", 40)
put(data, segment + 40, "<QQ", 40, 16)
refused("a free list that goes round", data, CRASHED, ranks=(2,))  # the library goes round with it
data = bytearray(good)
put(data, heap + 8, "<Q", 1 << 40)
refused("a heap of 1 TiB", data, CRASHED)
data = bytearray(good)
put(data, heap + 24, "<Q", 1 << 62)
refused("a heap that lies nowhere", data, CRASHED)
open("hostile.h5", "wb").write(good[:len(good) // 2])
refused("half a file", None, ["cut short"])

# ---- depth, counts, names --------------------------------------------------------------------------------------------------
with h5py.File("hostile.h5", "w") as file:
    group = file
    for _ in range(3000):
        group = group.create_group("d")
    group["deep"] = np.arange(3.0)
    file["shallow"] = np.arange(3.0)
report = taken("3000 groups below each other", None, 1)
check("groups" in report["skipped"][0]["reason"], f"{report['skipped']}")

with h5py.File("hostile.h5", "w", libver="latest") as file:
    file["a"] = np.arange(3.0)
    for i in range(50_000):
        file.id.links.create_soft(b"s%d" % i, b"/a")
        file.id.links.create_hard(b"h%d" % i, file.id, b"a")
began = time.monotonic()
report = taken("100,000 links to one tensor", None, 1)
check(len(report["tensors"][0]["aliases"]) == 100_000, f"{len(report['tensors'][0]['aliases'])} names")
print(f"100,000 links: {time.monotonic() - began:.1f} s")

# Two paths to each of 40 groups below each other: 2^40 names for one tensor.
with h5py.File("hostile.h5", "w") as file:
    group = file
    for _ in range(40):
        below = group.create_group("x")
        group["y"] = below
        group = below
    group["t"] = np.arange(3.0)
taken("2^40 paths to one tensor", None, 1)

odd = ["../../up", "a/..", "a\nb", "/etc/passwd".strip("/"), "rank-00000.safetensors", "\x1b[31mred", "x" * 60_000, "%s%n", " ", "-rf"]
os.mkdir("inside")
with h5py.File("hostile.h5", "w", libver="latest") as file:
    for i, name in enumerate(odd):
        file[name] = np.arange(4.0) + i
os.mkdir("inside/stage")
before = set(os.listdir(".")) | set(os.listdir("inside"))
old = os.umask(0o027)
run = Run(2, ["load", "hostile.h5", "--stage-out", "inside/stage", "--layout", "replicate"])
os.umask(old)
check("\x1b" not in run.out + run.err, "an escape sequence came to the terminal")
check(set(os.listdir(".")) | set(os.listdir("inside")) == before, "a name led out of the folder")
check(sorted(os.listdir("inside/stage")) == ["rank-00000.safetensors", "rank-00001.safetensors"], f"{os.listdir('inside/stage')}")
for file in os.scandir("inside/stage"):
    check(file.stat().st_mode & 0o777 == 0o640, f"{file.name} has mode {file.stat().st_mode & 0o777:o} under umask 027")
    tensors, _ = read_safetensors(file.path)
    check(set(tensors) == set(odd), f"{sorted(tensors)}")
tried += 1
print("names that lead upwards, to terminals and to options: none left the folder")

# A link in place of the shard is not followed, nor is a link in place of the temporary file of a new checkpoint.
for name in os.listdir("inside/stage"):
    os.unlink(f"inside/stage/{name}")
open("victim", "w").write("mine")
os.symlink(str(work / "victim"), "inside/stage/rank-00000.safetensors")
run = Run(2, ["load", "hostile.h5", "--stage-out", "inside/stage"], status=None)
check(open("victim").read() == "mine", "a symbolic link in the stage folder was followed")
tried += 1

# ---- decompression ---------------------------------------------------------------------------------------------------------
def bomb(dataset, chunk):
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(chunk)) + packer.flush()
    dataset.id.write_direct_chunk((0,) * dataset.ndim, packed)
    return len(packed)


with h5py.File("hostile.h5", "w") as file:
    file.create_dataset("good", data=np.arange(6, dtype="<f4"))
    stored = bomb(file.create_dataset("bomb", (256, 256), "<f4", chunks=(256, 256), compression="gzip"), 1024)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
left_out("1 GiB in a chunk of 256 KiB", None, ["bytes in the file for chunks of"], "bomb")
# As many stored bytes as a chunk of 1 MiB may have.
with h5py.File("hostile.h5", "w") as file:
    bomb(file.create_dataset("bomb", (512, 512), "<f4", chunks=(512, 512), compression="gzip"), 1024)
for ranks, more in ((1, []), (2, ["--io", "collective"]), (2, ["--io", "direct", "--layout", "replicate"])):
    run = Run(ranks, ["load", "hostile.h5", *more], status=3)
    check("tensor 'bomb'" in run.err and "expands to more than the 1048576 bytes" in run.err, run.err)
    tried += 1
check(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - peak < 100_000, "the bomb went off")
print(f"{tried} files made to harm or to surprise")
