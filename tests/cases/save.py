"""`save`: what it writes, read by h5py; from a checkpoint and from staged shards; chunks, gzip, attributes, aliases."""
import json
import os
import stat
import struct
import subprocess

import h5py
import numpy as np

from lib import DTYPES, Run, check, environment, program, synthetic, work_folder

work = work_folder()
rows = [(f"{dtype}.{i}", dtype, shape) for dtype in DTYPES
        for i, shape in enumerate([(67, 33), (), (0, 3), (511,), (5, 3, 40)])]
rows += [("big.weight", "bf16", (700, 513)), ("big.f8", "f8_e4m3", (2048, 130))]
(work / "table.tsv").write_text("".join(f"{n}\t{d}\t{','.join(map(str, s))}\n" for n, d, s in rows))
Run(2, ["generate", "--table", "table.tsv", "--out", "x.h5", "--seed", 11])


def bytes_of(dataset):
    """The bytes as the file has them: a memory type equal to the file's, so that nothing is converted."""
    out = np.empty(dataset.shape, np.dtype(f"V{dataset.id.get_type().get_size()}"))
    if out.size:
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, out, dataset.id.get_type())
    return out.tobytes()


def check_file(path, want=rows, seed=11):
    with h5py.File(path, "r") as file:
        names = []
        file.visititems(lambda name, object: names.append(name) if isinstance(object, h5py.Dataset) else None)
        names = [name for name in names if not name.startswith("__slabload__")]
        check(sorted(names) == sorted(n for n, _, _ in want), f"{path}: {len(names)} tensors")
        for name, dtype, shape in want:
            check(file[name].shape == shape, f"{path}: {name} has shape {file[name].shape}")
            check(bytes_of(file[name]) == synthetic(seed, name, dtype, shape).tobytes(), f"{path}: {name} has other bytes")
    done = Run(1, ["verify", path])
    check(f"verified {len(want)}" in done.out, done.out)


# ---- from a checkpoint: every layout, one or many ranks, the same bytes --------------------------------------------------
rules = {"mesh": "a=2,b=3", "rules": [{"match": "big.*", "placements": {"a": "S(1)", "b": "S(0)"}},
                                      {"match": "*.4", "placements": {"b": "SS(0,2)"}}], "default": {"a": "R", "b": "R"}}
(work / "rules.json").write_text(json.dumps(rules))
runs = [(1, ["--layout", "replicate"]), (3, []), (4, ["--mesh", "dp_replicate=2,dp_shard=2", "--layout", "hsdp"]),
        (6, ["--layout", "rules.json", "--strategy", "linear"]), (4, ["--layout", "fsdp1"]),
        (3, ["--layout", "replicate", "--staging", "256KiB"])]
for ranks, more in runs:
    out = f"saved{ranks}.h5"
    run = Run(ranks, ["save", "--from", "x.h5", "--out", out, "--force", *more, "--report", "save.json"])
    check_file(out)
    report = json.loads((work / "save.json").read_text())
    total = sum(int(np.prod(s, dtype=object)) * DTYPES[d][1] for _, d, s in rows)
    check(report["write_bytes"] == total and report["write_amplification"] == 1, f"{ranks}: {report['write_bytes']}")
    check("read by" not in report["strategy_why"], report["strategy_why"])
    check(report["staging_peak_bytes"] <= report["staging_budget_bytes"], "staging")
    if ranks > 1 and "fsdp1" not in more:
        check(report["write_share_max_over_mean"] < 1.25, f"{ranks} {more}: {report['write_share_max_over_mean']}")
print(f"save: {len(rows)} tensors in {len(runs)} layouts, every element written once and right")

# ---- staged shards: as they lie, on other ranks, in other layouts --------------------------------------------------------
stages = [(4, ["--mesh", "dp_replicate=2,dp_shard=2", "--layout", "hsdp"]), (6, ["--layout", "rules.json"]), (3, ["--layout", "zero3"])]
count = 0
for ranks, layout in stages:
    Run(ranks, ["load", "x.h5", *layout, "--stage-out", f"stage{ranks}"])
    for target, more in ((ranks, []), (2, []), (5, ["--layout", "replicate"]), (1, [])):
        Run(target, ["save", "--stage-in", f"stage{ranks}", "--out", "resharded.h5", "--force", *more])
        check_file("resharded.h5")
        count += 1
print(f"save: staged shards of {len(stages)} layouts on {count} other set-ups")
# Of two loads, or with a part missing: said, and nothing written.
before = (work / "resharded.h5").read_bytes()
Run(1, ["generate", "--table", "table.tsv", "--out", "y.h5", "--seed", 12])
Run(4, ["load", "y.h5", "--mesh", "dp_replicate=2,dp_shard=2", "--layout", "hsdp", "--stage-out", "again"])
os.replace("again/rank-00001.safetensors", "stage4/rank-00001.safetensors")
run = Run(2, ["save", "--stage-in", "stage4", "--out", "resharded.h5", "--force"], status=None)
check(run.status == 3 and "of another load" in run.err, run.err)
for gone in ("rank-00001", "rank-00003"):
    os.remove(f"stage4/{gone}.safetensors")
run = Run(2, ["save", "--stage-in", "stage4", "--out", "resharded.h5", "--force"], status=None)
check(run.status == 3 and "no other file that has the same" in run.err, run.err)
check((work / "resharded.h5").read_bytes() == before, "the target was touched")
# Two ranks with folders of their own under one name, as on two nodes, of two loads.
for source, folder in (("x", "node0"), ("y", "node1")):
    Run(2, ["load", f"{source}.h5", "--stage-out", folder])
(work / "by_rank.sh").write_text("""#!/bin/sh
exec unshare --mount sh -c 'mount --bind "node$OMPI_COMM_WORLD_RANK" local && exec "$@"' - "$@"
""")
os.chmod("by_rank.sh", 0o755)
os.mkdir("local")
if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0:
    command = [*os.environ.get("MPIRUN", "mpirun").split(), "-n", "2", "./by_rank.sh", program(), "save", "--stage-in", "local",
               "--out", "mixed_up.h5"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    check(done.returncode == 3 and "different loads" in done.stderr, f"{done.returncode} {done.stderr}")
run = Run(1, ["save", "--stage-in", "nowhere", "--out", "n.h5"], status=None)
check(run.status == 3 and "--stage-in nowhere" in run.err, run.err)

# ---- chunks and gzip ------------------------------------------------------------------------------------------------------
for ranks in (1, 3):
    Run(ranks, ["save", "--from", "x.h5", "--out", "chunks.h5", "--force", "--chunk", "16KiB"])
    check_file("chunks.h5")
    Run(ranks, ["save", "--from", "x.h5", "--out", "gzip.h5", "--force", "--compress", "gzip", "--chunk", "16KiB"])
    check_file("gzip.h5")
    with h5py.File("chunks.h5") as plain, h5py.File("gzip.h5") as packed:
        check(plain["big.weight"].chunks == (15, 513) and plain["big.weight"].compression is None, str(plain["big.weight"].chunks))
        check(packed["big.weight"].chunks == (15, 513) and packed["big.weight"].compression == "gzip" and packed["big.weight"].shuffle,
              str(packed["big.weight"].compression))
        check(packed["f32.1"].chunks is None, "a scalar in chunks")
run = Run(3, ["load", "gzip.h5", "--verify", "shards"])
check("#wrong 0" in run.out, run.out)
# With casts, and read again before the rename.
Run(2, ["save", "--from", "x.h5", "--out", "cast.h5", "--cast", "bf16", "--select", "f32.*", "--verify", "shards"])
with h5py.File("cast.h5") as file:
    whole = synthetic(11, "f32.0", "f32", (67, 33)).view("<f4")
    got = np.frombuffer(bytes_of(file["f32.0"]), "<u2").reshape(67, 33)
    wide = (got.astype("<u4") << 16).view("<f4")
    fine = np.isfinite(whole) & np.isfinite(wide) & (np.abs(whole) > 1e-37)  # below, bf16 has fewer digits
    check(np.all(np.abs(wide[fine] - whole[fine]) <= np.abs(whole[fine]) * 2.0**-8), "bf16 is not the nearest")
print("save: chunks, gzip and casts")

# ---- what others put into a file stays ------------------------------------------------------------------------------------
with h5py.File("foreign.h5", "w") as file:
    file.attrs["keras_version"] = "3.1"
    group = file.create_group("layers/dense")
    group.attrs["units"] = np.arange(4, dtype="<i8")
    group.attrs["names"] = np.array(["a", "bcd"], dtype=h5py.string_dtype())
    kernel = group.create_dataset("kernel", data=np.arange(600, dtype="<f4").reshape(20, 30))
    kernel.attrs["scale"] = 0.5
    kernel.attrs["to"] = kernel.ref
    file["tied"] = h5py.SoftLink("/layers/dense/kernel")
    file["layers"].attrs["order"] = "dense dropout"
    file.create_group("layers/dropout/vars").attrs["weight_names"] = np.array([], dtype="S1")  # Keras has such ones
    file.create_group("layers/flatten")
run = Run(2, ["save", "--from", "foreign.h5", "--out", "kept.h5"])
check("attribute 'to' of '/layers/dense/kernel' was not kept" in run.out, run.out)
with h5py.File("kept.h5") as file:
    check(file.attrs["keras_version"] == "3.1", "root attribute")
    check(list(file["layers/dense"].attrs["units"]) == [0, 1, 2, 3], "group attribute")
    check(list(file["layers/dense"].attrs["names"]) == ["a", "bcd"], "strings")
    check(file["layers/dense/kernel"].attrs["scale"] == 0.5 and "to" not in file["layers/dense/kernel"].attrs, "dataset attribute")
    check(file["layers"].attrs["order"] == "dense dropout" and len(file["layers/flatten"]) == 0, "groups")
    check(file["layers/dropout/vars"].attrs["weight_names"].size == 0, "an empty group's attribute")
    check(sorted(file["layers"]) == ["dense", "dropout", "flatten"] and "__slabload__" in file, list(file["layers"]))
    check(np.array_equal(file["tied"][:], np.arange(600, dtype="<f4").reshape(20, 30)), "alias")
check(Run(1, ["verify", "kept.h5"]).status == 0, "verify")
with h5py.File("saved3.h5") as file:
    kept = json.loads(bytes(file["__slabload__/metadata"][:]))
    check(kept["slabload_seed"] == "11", str(kept))

# ---- what is refused, before anything is read or written -------------------------------------------------------------------
for arguments, status, words in (
        (["--from", "x.h5", "--out", "saved3.h5"], 3, "exists already"),
        (["--from", "x.h5", "--out", "new.h5", "--staging", "1KiB"], 2, "smallest budget"),
        (["--from", "x.h5", "--out", "new.h5", "--strategy", "rank0-full"], 2, "rank0-full"),
        (["--stage-in", "stage3", "--out", "new.h5", "--device", "cuda"], 2, "--device cuda"),
        (["--from", "x.h5"], 2, "--out"), (["--out", "new.h5"], 2, "--from or --stage-in"),
        (["--from", "x.h5", "--stage-in", "stage3", "--out", "new.h5"], 2, "both given"),
        (["--from", "x.h5", "--out", "new.h5", "--chunk", "1KiB"], 2, "--chunk"),
        (["--from", "x.h5", "--out", "nowhere/new.h5"], 3, "nowhere")):
    run = Run(2, ["save", *arguments], status=None)
    check(run.status == status and words in run.err, f"{arguments}: {run.status} {run.err}")
    left = [p for p in os.listdir(".") if p.startswith("new.h5")]
    check(not left, f"{arguments} left {left}")
# What is no file is not replaced by one, a link is not followed, and what cannot be carried over is not lost silently.
os.mkfifo("pipe.h5")
os.symlink("saved3.h5", "link.h5")
with h5py.File("mixed.h5", "w") as file:
    file["good"] = np.arange(40, dtype="<f4")
    file["text"] = "no tensor"
for arguments, words in ((["--from", "x.h5", "--out", "pipe.h5"], "no regular file"), (["--from", "x.h5", "--out", "link.h5"], "symbolic link"),
                         (["--from", "mixed.h5", "--out", "mixed.h5"], "'text'")):
    run = Run(2, ["save", *arguments, "--force"], status=None)
    check(run.status == 3 and words in run.err, f"{arguments}: {run.status} {run.err}")
check(os.path.islink("link.h5") and stat.S_ISFIFO(os.stat("pipe.h5").st_mode), "something was replaced")
Run(2, ["save", "--from", "mixed.h5", "--out", "mixed.h5", "--force", "--exclude", "text"])
# A header that promises far more than its file can hold.
Run(2, ["load", "x.h5", "--stage-out", "huge"])
for rank in range(2):
    path = f"huge/rank-{rank:05}.safetensors"
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    places = json.loads(header["__metadata__"]["slabload_tensors"])
    places["big.weight"]["global_shape"] = [1 << 40, 513]
    header["__metadata__"]["slabload_tensors"] = json.dumps(places)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])
run = Run(2, ["save", "--stage-in", "huge", "--out", "new.h5"], status=None, limit=20)
check(run.status == 3 and "big.weight" in run.err and "not what the layout gives" in run.err, f"{run.status} {run.err}")
# A flipped bit in the source: nothing is saved.
subprocess.run(["cp", "x.h5", "bad.h5"], check=True)
with h5py.File("bad.h5") as file:
    at = file["big.weight"].id.get_offset() + 1000
with open("bad.h5", "r+b") as file:
    file.seek(at)
    byte = file.read(1)[0]
    file.seek(at)
    file.write(bytes([byte ^ 1]))
run = Run(2, ["save", "--from", "bad.h5", "--out", "new.h5"], status=None)
check(run.status == 1 and "big.weight" in run.err and not os.path.exists("new.h5"), run.err)
print("save: refusals leave nothing")
