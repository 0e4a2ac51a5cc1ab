"""safetensors into HDF5 and `generate`: bit for bit, whatever the number of ranks."""
import json

import h5py
import numpy as np

from lib import DTYPES, Run, bits, check, read_table, synthetic, work_folder, write_safetensors

work = work_folder()
random = np.random.default_rng(11)


def contents(path):
    """{name: (dtype, raw bytes)} by h5py, which has no bf16 or fp8: read with the file's own type."""
    out = {}
    with h5py.File(path, "r") as file:
        for name in file:
            if name == "__slabload__":
                continue
            dataset = file[name].id
            with open(path, "rb") as raw:
                raw.seek(dataset.get_offset() or 0)
                out[name] = (dataset.shape, raw.read(dataset.get_storage_size()))
    return out


# ---- a folder of shards: every type, a scalar, an empty tensor, metadata -------------------------------------------------
folder = work / "model"
folder.mkdir()
shapes = {"matrix": (37, 19), "scalar": (), "empty": (4, 0), "vector": (1001,), "deep": (2, 3, 4, 5)}
tensors, places = {}, {}
for number, (kind, size) in enumerate(DTYPES.values()):
    shard = f"model-{number % 3 + 1:05}-of-00003.safetensors"
    for word, shape in shapes.items():
        top = 1 if kind == "BOOL" else (1 << 8 * size) - 1
        values = random.integers(0, top, shape, np.uint64, endpoint=True)
        tensors[f"{kind}.{word}"] = (kind, np.asarray(values).astype(bits(size)))
        places[f"{kind}.{word}"] = shard
for shard in sorted(set(places.values())):
    write_safetensors(folder / shard, {n: t for n, t in tensors.items() if places[n] == shard}, {"format": "pt", "note": "ä ✓"})
(folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))

for ranks, source in ((1, folder), (3, folder), (2, folder / "model.safetensors.index.json")):
    Run(ranks, ["import", source, "--out", f"imported-{ranks}.h5", "--staging", "64KiB" if ranks == 3 else "256MiB"])
    found = contents(f"imported-{ranks}.h5")
    check(set(found) == set(tensors), f"imported on {ranks} ranks: other tensors")
    for name, (kind, values) in tensors.items():
        check(found[name] == (values.shape, values.tobytes()), f"imported on {ranks} ranks: {name} has other bytes")
with h5py.File("imported-3.h5", "r") as file:  # what h5py can read, it reads
    for kind, name in (("F64", "<f8"), ("F32", "<f4"), ("F16", "<f2"), ("I8", "i1"), ("I64", "<i8"), ("U16", "<u2")):
        dataset = file[f"{kind}.matrix"]
        check(dataset.dtype == np.dtype(name), f"h5py sees {kind} as {dataset.dtype}")
        check(dataset[()].tobytes() == tensors[f"{kind}.matrix"][1].tobytes(), f"h5py reads other values of {kind}")
    check(file["BOOL.matrix"].dtype == np.dtype(bool), f"h5py sees BOOL as {file['BOOL.matrix'].dtype}")
report = json.loads(Run(0, ["inspect", "imported-3.h5", "--json", "--tensors"]).out)
check(report["metadata"].get("note") == "ä ✓" and report["metadata"].get("format") == "pt", f"metadata: {report['metadata']}")
check({t["name"]: DTYPES[t["dtype"]][0] for t in report["tensors"]} == {n: kind for n, (kind, _) in tensors.items()}, "types changed")
check(report["tensors_with_checksum"] == len(tensors), "not every tensor has a checksum")
print(f"import: {len(tensors)} tensors of {len(DTYPES)} types from 3 shards, the same bytes on 1, 2 and 3 ranks")

for ranks, a, b in ((3, folder, "imported-1.h5"), (2, "imported-3.h5", folder), (1, "imported-1.h5", "imported-2.h5")):
    run = Run(ranks, ["verify", a, "--against", b])
    check(f"tensors equal {len(tensors)}, different 0" in run.out, run.out)
Run(2, ["verify", "imported-3.h5"])
# One bit in a source, one tensor less: both must show.
name = "BF16.matrix"
changed = tensors[name][1].copy()
changed[36, 18] ^= 1
write_safetensors("changed.safetensors", {n: (kind, changed if n == name else v) for n, (kind, v) in tensors.items() if n != "U8.deep"})
run = Run(2, ["verify", "imported-1.h5", "--against", "changed.safetensors"], status=1)
check(f"different: {name} has other values" in run.out and "only in the first: U8.deep" in run.out, run.out)
check(f"tensors equal {len(tensors) - 2}, different 2" in run.out, run.out)
run = Run(1, ["import", folder, "--out", "imported-1.h5"], status=3)
check("exists already" in run.err, run.err)

# ---- generate -------------------------------------------------------------------------------------------------------------
rows = [(f"{dtype}.{i}", dtype, shape) for dtype in DTYPES for i, shape in enumerate([(211, 33), (), (0, 3), (4097,)])]
(work / "table.tsv").write_text("".join(f"{n}\t{d}\t{','.join(map(str, s))}\n" for n, d, s in rows))
check(read_table("table.tsv") == rows, "the table is not what it should be")
first = None
for ranks in (1, 2, 4):
    Run(ranks, ["generate", "--table", "table.tsv", "--out", f"g{ranks}.h5", "--seed", 7])
    found = contents(f"g{ranks}.h5")
    first = first or found
    check(found == first, f"generate on {ranks} ranks gives other bytes than on 1")
for name, dtype, shape in rows:
    check(first[name] == (shape, synthetic(7, name, dtype, shape).tobytes()), f"generate: {name} is not what the formula says")
Run(2, ["verify", "g4.h5", "--against", "g1.h5"])
Run(2, ["generate", "--table", "table.tsv", "--out", "other.h5", "--seed", 8])
other = contents("other.h5")
for name, dtype, shape in rows:
    if len(first[name][1]) > 8:
        check(other[name] != first[name], f"generate: {name} is the same with another seed")
print(f"generate: {len(rows)} tensors, the same bytes on 1, 2 and 4 ranks and by the formula, others with another seed")
