"""A stranger's check of the shards: every rank's staged file is read with nothing but struct, json and numpy, its place is
checked against the rules of layouts.md, and the tensors are put together again and compared with what an independent
reader (h5py, the safetensors format, the documented formula of `generate`) has."""
import json

import h5py
import numpy as np

from lib import (DTYPES, TABLES, TOP, Run, bits, check, coordinate_of, cut, read_safetensors, read_table, scaled, synthetic,
                 work_folder, write_safetensors)

work = work_folder()
SHARED = TOP.parent / "shared/data"


# ---- sources: path, {name: (safetensors dtype, bit patterns)} -----------------------------------------------------------

def generated():
    table, scale, seed = TABLES / "qwen2.5-0.5b.tsv", 16, 41
    Run(3, ["generate", "--table", table, "--out", "generated.h5", "--scale", scale, "--seed", seed])
    return "generated.h5", {name: (DTYPES[dtype][0], synthetic(seed, name, dtype, scaled(shape, scale)))
                            for name, dtype, shape in read_table(table)}


def every_type():
    """All types, odd shapes, a scalar, empty tensors."""
    shapes = [(5, 7), (), (13,), (3, 0, 4), (2, 3, 5), (1, 11), (4099,)]
    rows = [(f"{dtype}.{i}", dtype, shape) for dtype in DTYPES for i, shape in enumerate(shapes)]
    lines = "".join(f"{name}\t{dtype}\t{','.join(map(str, shape))}\n" for name, dtype, shape in rows)
    (work / "types.tsv").write_text(lines)
    Run(2, ["generate", "--table", "types.tsv", "--out", "types.h5", "--seed", 5])
    return "types.h5", {name: (DTYPES[dtype][0], synthetic(5, name, dtype, shape)) for name, dtype, shape in rows}


def keras():
    """A real file of Keras where there is one; else one with its structure: layers/NAME/cell/vars/0, optimizer scalars."""
    path = SHARED / "keras3_lstm.weights.h5"
    if not path.exists():
        path = work / "keras.h5"
        random = np.random.default_rng(3)
        with h5py.File(path, "w") as file:
            for layer, shapes in (("lstm/cell", [(28, 512), (128, 512), (512,)]), ("dense", [(128, 10), (10,)])):
                for i, shape in enumerate(shapes):
                    file[f"layers/{layer}/vars/{i}"] = random.standard_normal(shape, np.float32)
            file["optimizer/vars/0"] = np.int64(1875)
            file["optimizer/vars/1"] = np.float32(1e-3)
            file.create_group("metrics/mean/vars")
    return str(path), of_h5py(path)


def of_h5py(path):
    tensors = {}

    def take(name, item):
        if isinstance(item, h5py.Dataset):
            kind = {"f": "F", "i": "I", "u": "U"}[item.dtype.kind] + str(item.dtype.itemsize * 8)
            values = np.asarray(item[()]).astype(item.dtype.newbyteorder("<"))
            tensors[name] = (kind, np.frombuffer(values.tobytes(), bits(item.dtype.itemsize)).reshape(item.shape))
    with h5py.File(path, "r") as file:
        file.visititems(take)
    return tensors


def safetensors_file():
    path = SHARED / "mnist.safetensors"
    if not path.exists():
        path = work / "mnist.safetensors"
        random = np.random.default_rng(4)
        shapes = {"conv1.weight": (32, 1, 3, 3), "conv1.bias": (32,), "fc1.weight": (101, 784), "fc1.bias": (101,)}
        write_safetensors(path, {name: ("F32", random.integers(0, 2**32, shape, np.uint32)) for name, shape in shapes.items()},
                          {"format": "pt"})
    tensors, _ = read_safetensors(path)
    return str(path), {name: (dtype, values) for name, (dtype, _, values) in tensors.items()}


def imported():
    source, tensors = safetensors_file()
    Run(3, ["import", source, "--out", "imported.h5"])
    return "imported.h5", tensors


# ---- layouts: arguments, mesh, {axis: dimension} of a tensor --------------------------------------------------------------

def rules_file():
    """Rows on one axis and columns on the other, columns alone, the last dimension, a default."""
    (work / "rules.json").write_text(json.dumps({
        "rules": [
            {"match": "*norm*", "placements": {"x": "R"}},
            {"match": "*mlp*weight", "placements": {"x": "S(1)", "y": "S(0)"}},
            {"match": "*attn*weight", "placements": {"y": "S(-1)"}},
            {"match": "*embed*", "placements": {"x": "S(0)", "y": "S(0)"}},
            {"match": "*kernel*", "placements": {"x": "S(0)"}}],
        "default": {"y": "R"}}))


def rule_of(name, shape):
    for words, placements in ((("norm",), {}), (("mlp", "weight"), {"x": 1, "y": 0}), (("attn", "weight"), {"y": -1}),
                              (("embed",), {"x": 0, "y": 0}), (("kernel",), {"x": 0})):
        at = [name.find(word) for word in words]
        if min(at) >= 0 and at == sorted(at) and (len(words) < 2 or name.endswith(words[-1])):
            return placements
    return {}


def sharded(name, shape):
    return {"dp_shard": 0} if shape else {}


def layouts(ranks):
    rows = 2 if ranks == 4 else ranks
    yield "fsdp2", [("dp_shard", ranks)], sharded
    yield "hsdp", [("dp_replicate", ranks // rows), ("dp_shard", rows)], sharded
    yield "replicate", [("dp_shard", ranks)], lambda name, shape: {}
    yield "rules.json", [("x", 2), ("y", 2)] if ranks == 4 else [("x", 1), ("y", 3)], rule_of


# ---- the check ------------------------------------------------------------------------------------------------------------

def check_shards(folder, ranks, layout, mesh, placements_of, want):
    """Returns the number of elements compared."""
    found = {name: np.full(values.size, False) for name, (_, values) in want.items()}
    compared = 0
    files = sorted(path.name for path in folder.iterdir())
    check(files == [f"rank-{rank:05}.safetensors" for rank in range(ranks)], f"{folder} holds {files}")
    for rank in range(ranks):
        where = f"{layout} on {ranks} ranks, rank {rank}"
        tensors, metadata = read_safetensors(folder / files[rank])
        coordinate = coordinate_of(rank, mesh)
        check(metadata["slabload_mesh"] == ",".join(f"{axis}={size}" for axis, size in mesh), f"{where}: mesh {metadata}")
        check(json.loads(metadata["slabload_coordinate"]) == coordinate, f"{where}: coordinate {metadata['slabload_coordinate']}")
        check((metadata["slabload_rank"], metadata["slabload_ranks"]) == (str(rank), str(ranks)), f"{where}: rank {metadata}")
        places = json.loads(metadata["slabload_tensors"])
        check(set(places) == set(tensors) == set(want),
              f"{where}: not the tensors of the checkpoint: {sorted(set(tensors) ^ set(want))[:5]}")
        for name, (kind, whole) in want.items():
            dtype, shape, values = tensors[name]
            offset, extent = cut(whole.shape, mesh, coordinate, placements_of(name, whole.shape))
            place = places[name]
            check(dtype == kind, f"{where}: {name} is {dtype}, expected {kind}")
            check(tuple(place["global_shape"]) == whole.shape, f"{where}: {name}: global shape {place}, expected {whole.shape}")
            check(shape == extent, f"{where}: {name} has shape {shape}, expected {extent}")
            check(tuple(place["offset"]) == offset, f"{where}: {name} is at {place['offset']}, expected {offset}")
            part = tuple(slice(begin, begin + length) for begin, length in zip(offset, extent))
            check(np.array_equal(values, whole[part]), f"{where}: {name}: other values than its slice {offset} {extent}")
            found[name].reshape(whole.shape)[part] = True
            compared += values.size
    for name, seen in found.items():
        check(seen.all(), f"{layout} on {ranks} ranks: {seen.size - seen.sum()} elements of {name} are on no rank")
    return compared


rules_file()
sources = [generated(), every_type(), keras(), safetensors_file(), imported()]
if __name__ == "__main__":
    total = loads = 0
    for number, (path, want) in enumerate(sources):
        for ranks in (4, 3):
            for turn, (layout, mesh, placements_of) in enumerate(layouts(ranks)):
                # Every source meets every layout; the two rank counts, the ways of reading and the sizes of a read take turns.
                if (number + turn + ranks) % 2 and path != "generated.h5":
                    continue
                folder = work / "shards"
                folder.mkdir()
                axes = ",".join(f"{axis}={size}" for axis, size in mesh)
                run = Run(ranks, ["load", path, "--layout", layout, "--mesh", axes, "--stage-out", folder, "--verify", "shards",
                                  "--io", ("independent", "direct")[turn % 2], "--min-read", ("1KiB", "1MiB")[ranks % 2]])
                check("#wrong 0" in run.out, f"{path}: {run.out}")
                total += check_shards(folder, ranks, layout, mesh, placements_of, want)
                loads += 1
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
        print(f"{path}: {len(want)} tensors, {sum(v.size for _, v in want.values())} elements")
    print(f"{loads} loads, {total} elements of shards compared")
    check(loads >= 20, f"only {loads} loads")
