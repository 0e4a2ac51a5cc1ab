"""`export`: the files, their index and every byte, read by Python alone; there and back; and what must not be written."""
import json
import os
import shutil
import subprocess

import h5py
import numpy as np

from lib import (DTYPES, Run, bits, check, read_safetensors, synthetic, unmount, work_folder,
                 write_safetensors)

work = work_folder()


def export_set(folder):
    """{name: (dtype, shape, bits)}, metadata of each file; with an index that is right."""
    files = sorted(p.name for p in folder.iterdir())
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        check(files == ["model.safetensors"], f"{folder}: files {files}")
        tensors, metadata = read_safetensors(folder / "model.safetensors")
        return tensors, [metadata]
    shards = [name for name in files if name.endswith(".safetensors")]
    check(shards == [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))], f"files {files}")
    check(len(files) == len(shards) + 1, f"other files in {files}")
    listed = json.loads(index.read_text())
    tensors, metadata, place = {}, [], {}
    for shard in shards:
        part, meta = read_safetensors(folder / shard)
        check(not set(part) & set(tensors), f"{shard}: a tensor of another file")
        tensors.update(part)
        place.update({name: shard for name in part})
        metadata.append(meta)
    check(listed["weight_map"] == place, "weight_map")
    check(listed["metadata"]["total_size"] == sum(values.nbytes for _, _, values in tensors.values()), "total_size")
    return tensors, metadata


# ---- every type, in one file and in many, the same on any number of ranks -----------------------------------------------
rows = [(f"{dtype}.{i}", dtype, shape) for dtype in DTYPES for i, shape in enumerate([(211, 33), (), (0, 3), (1024,)])]
(work / "table.tsv").write_text("".join(f"{n}\t{d}\t{','.join(map(str, s))}\n" for n, d, s in rows))
Run(2, ["generate", "--table", "table.tsv", "--out", "x.h5", "--seed", 7])
limit = 40000
for ranks, name, more in ((0, "one", []), (1, "many1", ["--max-file-bytes", limit]), (3, "many3", ["--max-file-bytes", f"{limit}B", "--staging", "16KiB"])):
    run = Run(ranks, ["export", "x.h5", "--out", name, *more])
    check(f"# checksums of the source compared {len(rows)} of {len(rows)}" in run.out, run.out)
    tensors, metadata = export_set(work / name)
    check(f"# files {len(metadata)}{' and an index' if len(metadata) > 1 else ''}\n" in run.out, run.out)
    check(len(tensors) == len(rows), f"{name}: {len(tensors)} tensors")
    for tensor, dtype, shape in rows:
        kind, there, values = tensors[tensor]
        check((kind, there) == (DTYPES[dtype][0], shape), f"{name}: {tensor} is {kind} {there}")
        check(values.tobytes() == synthetic(7, tensor, dtype, shape).tobytes(), f"{name}: {tensor} has other bytes")
    check(all(m == metadata[0] and m["format"] == "pt" and m["slabload_seed"] == "7" for m in metadata), f"{name}: {metadata}")
shards = sorted((work / "many1").glob("*.safetensors"))
check(len(shards) > 5, f"{len(shards)} files")
for shard in shards:
    check(shard.stat().st_size <= limit or len(read_safetensors(shard)[0]) == 1, f"{shard}: {shard.stat().st_size} bytes")
    check(shard.read_bytes() == (work / "many3" / shard.name).read_bytes(), f"{shard.name} differs between 1 and 3 ranks")
print(f"export: {len(rows)} tensors of {len(DTYPES)} types, in 1 file and in {len(shards)}, the same on 1 and 3 ranks")

# ---- there and back -----------------------------------------------------------------------------------------------------
Run(2, ["import", "many3", "--out", "back.h5"])
Run(3, ["verify", "back.h5", "--against", "x.h5"])


def facts(path):
    report = json.loads(Run(0, ["inspect", path, "--json", "--tensors"]).out)
    return {t["name"]: (t["dtype"], t["shape"], t["crc64"]) for t in report["tensors"]}, report["metadata"]


(before, metadata), (after, kept) = facts("x.h5"), facts("back.h5")
check(before == after, "import(export(x)) is not x")
check({**metadata, "format": "pt"} == kept, f"metadata {metadata} became {kept}")
random = np.random.default_rng(5)
folder = work / "y"
folder.mkdir()
values = {f"t{i}.é": (kind, random.integers(0, 2, (i, 3), np.uint64).astype(bits(size))) for i, (kind, size) in enumerate(DTYPES.values())}
write_safetensors(folder / "a.safetensors", dict(list(values.items())[:7]), {"format": "np", "note": "ä ✓"})
write_safetensors(folder / "b.safetensors", dict(list(values.items())[7:]), {"format": "np", "note": "ä ✓"})
Run(1, ["import", "y", "--out", "y.h5"])
for source in ("y.h5", "y"):  # and from safetensors straight
    Run(2, ["export", source, "--out", f"from-{source}", "--max-file-bytes", 1000])
    tensors, metadata = export_set(work / f"from-{source}")
    check(all(m == {"format": "np", "note": "ä ✓"} for m in metadata), f"metadata {metadata}")
    check({n: (k, v.tobytes()) for n, (k, _, v) in tensors.items()} == {n: (k, v.tobytes()) for n, (k, v) in values.items()}, source)
print("export: import(export(x)) is x, export(import(y)) has y's bytes")

# ---- a file of another program ------------------------------------------------------------------------------------------
with h5py.File("odd.h5", "w") as file:
    file["big"] = np.arange(12, dtype=">f4").reshape(3, 4)
    file.create_dataset("packed", data=np.arange(1000, dtype="<i8").reshape(50, 20), chunks=(7, 6), compression="gzip", shuffle=True)
    file.create_dataset("unwritten", (5,), "<f8", fillvalue=2.5)
    file["flag"] = np.array([True, False])
    file["tied"] = file["big"]
    file["words"] = "a string"
run = Run(2, ["export", "odd.h5", "--out", "odd"], status=3)
check("'words' cannot be taken as a tensor" in run.err and "--exclude" in run.err, run.err)
check(not (work / "odd").exists(), "an export that was refused left a folder")
Run(2, ["export", "odd.h5", "--out", "odd", "--exclude", "words"])
tensors, metadata = export_set(work / "odd")
want = {"big": np.arange(12, dtype="<f4"), "packed": np.arange(1000, dtype="<i8"), "unwritten": np.full(5, 2.5), "flag": np.array([1, 0], "u1")}
check({n: v.tobytes() for n, (_, _, v) in tensors.items()} == {n: v.tobytes() for n, v in want.items()}, f"odd.h5: {tensors}")
check(tensors["packed"][1] == (50, 20) and tensors["flag"][0] == "BOOL", "odd.h5: shapes or types")
check(metadata[0] == {"format": "pt", "tied": "big"}, f"odd.h5: {metadata}")

# ---- what is wrong leaves nothing, what is there stays -------------------------------------------------------------------
shutil.copy("x.h5", "bad.h5")
with h5py.File("bad.h5", "r") as file:
    at = file["bf16.0"].id.get_offset() + 1001
with open("bad.h5", "r+b") as file:
    file.seek(at)
    byte = file.read(1)[0]
    file.seek(at)
    file.write(bytes([byte ^ 4]))
run = Run(3, ["export", "bad.h5", "--out", "bad"], status=1)
check("tensor bf16.0" in run.err and run.err.count("slabload: error") == 1, run.err)
check(not list(work.glob("bad[!.]*")) and not (work / "bad").exists(), f"left behind: {os.listdir(work)}")
run = Run(2, ["export", "x.h5", "--out", "one"], status=3)
check("exists already" in run.err, run.err)
Run(2, ["export", "odd.h5", "--out", "one/", "--exclude", "words", "--force"])
check(set(export_set(work / "one")[0]) == set(want), "--force did not replace")
(work / "one" / "config.json").write_text("mine")
run = Run(1, ["export", "x.h5", "--out", "one", "--force"], status=3)
check("config.json" in run.err and (work / "one" / "config.json").read_text() == "mine", run.err)
run = Run(0, ["export", "x.h5"], status=2)
check("--out is missing" in run.err, run.err)
run = Run(0, ["export", "x.h5", "--out", "none", "--max-file-bytes", "0"], status=2)
check("--max-file-bytes" in run.err, run.err)

# ---- a full disk shows before anything is written, and leaves nothing ---------------------------------------------------
small = work / "small"
small.mkdir()
mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", small], capture_output=True).returncode == 0
try:
    if not mounted:  # a limit on the size of a file stands in for it
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 * 1024, resource.RLIM_INFINITY))
    more = ["--max-file-bytes", "50KB"] if mounted else []
    run = Run(2, ["export", "x.h5", "--out", small / "out", *more], status=3)
    check("cannot be reserved" in run.err and "small/out" in run.err, run.err)
    check(not list(small.iterdir()), f"left behind: {list(small.iterdir())}")
finally:
    if mounted:
        unmount(small)
print("export: wrong data, an existing folder and a full disk are refused; nothing is left behind")
