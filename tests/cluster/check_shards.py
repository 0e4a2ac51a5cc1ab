"""Shards that a load left on several hosts, against the formula of `generate` and the rules of the layout, with numpy alone:
check_shards.py TABLE SEED AXIS=SIZE,... SHARDED_AXES|- FOLDER   (the folder has all ranks' files)"""
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cases"))
from lib import DTYPES, check, coordinate_of, cut, read_safetensors, read_table, synthetic  # noqa: E402

table, seed, mesh_text, sharded, folder = sys.argv[1:]
mesh = [(axis, int(size)) for axis, size in (part.split("=") for part in mesh_text.split(","))]
ranks = int(np.prod([size for _, size in mesh]))
files = sorted(path.name for path in Path(folder).iterdir())
check(files == [f"rank-{rank:05}.safetensors" for rank in range(ranks)], f"{folder} holds {files}")
shards = [read_safetensors(Path(folder) / name) for name in files]
compared = 0
for name, dtype, shape in read_table(table):
    whole = synthetic(int(seed), name, dtype, shape)
    for rank, (tensors, metadata) in enumerate(shards):
        placements = {} if sharded == "-" or not shape else {axis: 0 for axis in sharded.split(",")}
        offset, extent = cut(shape, mesh, coordinate_of(rank, mesh), placements)
        kind, found, values = tensors[name]
        check(kind == DTYPES[dtype][0] and found == extent, f"rank {rank}: {name} is {kind} {found}, expected {extent}")
        place = json.loads(metadata["slabload_tensors"])[name]
        check(tuple(place["offset"]) == offset, f"rank {rank}: {name} is at {place['offset']}, expected {offset}")
        part = tuple(slice(begin, begin + length) for begin, length in zip(offset, extent))
        check(np.array_equal(values, whole[part]), f"rank {rank}: {name}: other values than its slice {offset} {extent}")
        compared += values.size
check(compared > 0, "nothing was compared")
print(f"{compared} elements of {ranks} ranks")
