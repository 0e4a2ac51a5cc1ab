#!/usr/bin/env python3
"""Makes layouts.json: which elements each rank holds, as PyTorch itself places them.

slabload's layout code is tested against layouts.json; neither the build nor the tests need PyTorch.
Run this only to make the vectors again or to add cases:

    python3 -m venv /tmp/lv && /tmp/lv/bin/pip install torch==2.15.0 numpy
    /tmp/lv/bin/python make_layout_vectors.py                   # writes layouts.json beside this file
    python3 make_layout_vectors.py --check                      # needs no torch: the file against the rules
    /tmp/lv/bin/python make_layout_vectors.py -o /tmp/other.json    # another torch: then diff the two

A CPU is enough, no GPU is used. The committed file was made with torch 2.15.0+cu132, Python 3.11. The Linux
wheel on PyPI is the CUDA build and imports the CUDA libraries, hence the plain `pip install` above. (With CUDA
13.0 on the machine less will do: `pip install --no-deps` of torch and of nvidia-cufile, nvidia-cusparselt-cu13,
nvidia-nvshmem-cu13, nvidia-nccl-cu13, and normally filelock typing-extensions sympy networkx jinja2 fsspec numpy
setuptools.) It runs for half a minute on two slow cores. 2.6.0 runs too, but see "Versions compared".

How the vectors are made: all ranks are real processes (forked) in a gloo process group, nothing is faked. The
tensor to place holds its own flat indices, so a local tensor names the elements a rank holds.
 - dtensor, strided: distribute_tensor(...).to_local() with a real scatter, compared with the same call with
   src_data_rank=None where torch has that; "off" from compute_local_shape_and_global_offset, whose local shape
   must be the same too.
 - fsdp2: fully_shard(), then FSDPParam._sharded_param_data cut to the unpadded size; it must equal
   param.to_local().
 - fsdp1: FullyShardedDataParallel(device_id=cpu); FlatParameter._shard_param_infos, checked against the values
   in the flat shard.

Format. One JSON object {"header":{...},"cases":[...]}, one case a line. Common to all cases:
  kind        dtensor | strided | fsdp2 | fsdp1 | refused
  shape       the full tensor's
  mesh        [[axis,size],...], outermost first; ranks are row-major, the last axis varies fastest
  placements  one for each axis: "R", "S(d)", "SS(d,f)"; d may be negative in dtensor and strided
  ranks       one entry for each rank, in order:
    local     the local tensor's shape
    off       (dtensor, strided) the global offset torch reports: of the first element held; in an empty shard,
              the full length of the dimension for each dimension that is empty
    dims      for each dimension the runs [start,extent] of indices; their Cartesian product, in order, is the
              local tensor in row-major order. Neighbouring runs are merged. [] when the rank holds no element
              (some extent in local is 0), and for a 0-d tensor (local is [] too, one element)
Only in fsdp2:
  placements    what the DTensor parameter says about itself; "via" if parallelize_module made the parameter
  storage       [[axis,placement],...] in the order in which the splits really happen: the ranks are what
                plain S(d) splits in this order give (axes not named: replicated)
  formula_same  whether applying "placements" from left to right (torch's own _split_tensor) gives every rank
                the elements that it really stores (null: torch refuses the split; not in 2.15). "ranks" is always
                the real storage; in an empty shard compare only the emptiness of "local"
Only in fsdp1 (no "shape"; the flat axis is "F" in placements):
  use_orig_params, dtype; param_dtype when mixed precision is on
  align       every parameter begins at a multiple of this many elements in the flat parameter (1: no gaps)
  groups      one for each FlatParameter (wrapped module), the outermost first:
              {"params":[[name,shape,begin],...],"numel":N,"shard":M}: begin is the parameter's place in the flat
              parameter, N the flat parameter's length (with gaps and with the tail padding that is part of it),
              M the elements that each rank stores (padding included): rank r stores [r*M,(r+1)*M)
  ranks       for each rank, for each group, for each parameter [begin,end) in the flattened parameter; [0,0] if
              the rank holds none of it
Only in refused: torch raises "error" (the exception's type) on every rank; no ranks.

FSDP1, deviation from the simple rule "flatten, concatenate, pad to a multiple of the shard count, cut evenly":
it is exact for use_orig_params=False only. With use_orig_params=True each parameter begins at a multiple of
16 bytes, counted in elements of the dtype that forward computes in (4 for float32, 8 for bfloat16; under mixed
precision the low precision dtype counts although the shards are stored in the original one). Gap elements
before a parameter belong to no parameter. A tied parameter is stored once, under its first name.

What torch 2.15.0 refuses or does oddly (the vectors hold what it does):
 - distribute_tensor with the default src_data_rank=0 scatters, and for an uneven _StridedShard that fails with a
   bare AssertionError: the parts have different sizes. With src_data_rank=None it works; that, and
   _split_tensor applied from left to right, is what strided cases show (checked to be equal).
 - a shard dimension out of range is refused with an IndexError or an AssertionError (kind refused).
 - compute_local_shape_and_global_offset(), called with placements that name one dimension both as d and d-ndim,
   gives wrong offsets. DTensor makes dimensions positive first, and so does this script.
 - fully_shard gives an empty TP part (n < tp ranks, on a dimension other than 0) the local shape [0,0], not
   [3,0]: compare only the emptiness there.
 - where formula_same is false the parameter's own metadata (placements, and "off" computed from them) is wrong:
   for n=7 over (dp 3, tp 2) full_tensor() is right, but torch.distributed.checkpoint saves by the formula and
   cannot load what it saved. The storage is what counts.
 - fully_shard with a shard dimension other than 0 refuses sizes that do not divide; there are no such cases.

Versions compared: 2.15.0 and 2.6.0 (`-o` with each, then a diff). Elements and local shapes are the same wherever
2.6.0 accepts the case. 2.6.0 refuses: every uneven _StridedShard, some even ones (a Shard after two strided ones),
FSDP2 over TP when the dimension does not divide by dp*tp or when the TP part is not contiguous (uneven S(1)),
FSDP2 over two model axes, a scatter of an already empty part. It reports other offsets ("off") for empty shards
that are split again and for most ranks with several runs or an SS factor that is not its right neighbour's size;
and it lets S(-3) pass for a 2-d tensor.
"""
import argparse
import itertools
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# ------------------------------------------------------------------------------------------------ the cases


def prod(xs):
    p = 1
    for x in xs:
        p *= x
    return p


def mesh_of(text):
    """"dp=2,tp=4" -> [["dp",2],["tp",4]]"""
    return [[a.split("=")[0], int(a.split("=")[1])] for a in text.split(",")]


def dtensor_cases():
    out = []

    def add(shape, mesh, *placements):
        out.append({"kind": "dtensor", "shape": list(shape), "mesh": mesh_of(mesh), "placements": list(placements)})

    # the worked examples of the rules first
    add([5], "tp=4", "S(0)")
    add([2], "tp=8", "S(0)")
    add([5], "dp=2,tp=2", "S(0)", "S(0)")
    add([2], "dp=4,tp=2", "S(0)", "S(0)")
    add([7], "dp_replicate=2,dp_shard=4", "R", "S(0)")
    # one axis, one dimension
    for k in (1, 2, 3, 4, 5, 7, 8):
        for n in {1: (0, 5), 2: (0, 1, 2, 3, 7), 3: (0, 1, 2, 4, 5, 7, 9), 4: (0, 1, 3, 4, 6, 7, 9, 13),
                  5: (2, 6, 7, 11, 12), 7: (1, 6, 8, 13, 15), 8: (0, 1, 7, 9, 16, 17, 31)}[k]:
            add([n], "dp=%d" % k, "S(0)")
    add([], "dp=3", "R")
    add([], "dp=2,tp=3", "R", "R")
    add([5], "dp=3", "R")
    add([0, 4], "dp=3", "R")
    # two axes on one dimension
    for mesh, ns in (("dp=2,tp=2", (0, 1, 3, 6, 7, 9)), ("dp=2,tp=3", (1, 4, 5, 7, 8, 13)),
                     ("dp=3,tp=2", (1, 4, 5, 7, 8, 13)), ("dp=2,tp=4", (3, 9, 10, 17)),
                     ("dp=4,tp=2", (5, 9, 10, 17)), ("dp=1,tp=4", (6,)), ("dp=4,tp=1", (6,))):
        for n in ns:
            add([n], mesh, "S(0)", "S(0)")
    add([7], "dp=2,tp=3", "S(0)", "R")
    add([7], "dp=2,tp=3", "R", "S(0)")
    # two dimensions
    for shape, mesh, p in (
            ([5, 3], "dp=2", "S(0)"), ([5, 3], "dp=2", "S(1)"), ([5, 3], "dp=4", "S(1)"), ([5, 3], "dp=4", "S(-1)"),
            ([5, 3], "dp=4", "S(-2)"), ([1, 1], "dp=3", "S(0)"), ([1, 7], "dp=3", "S(0)"), ([1, 7], "dp=3", "S(1)"),
            ([0, 4], "dp=2", "S(0)"), ([0, 4], "dp=2", "S(1)"), ([4, 0], "dp=2", "S(0)"), ([4, 0], "dp=3", "S(1)"),
            ([13, 11], "dp=5", "S(1)"), ([2, 16], "dp=8", "S(0)"), ([16, 2], "dp=8", "S(0)"),
            ([0, 0], "dp=3", "S(0)"),
            ([5, 7], "dp=2,tp=2", "S(0) S(1)"), ([5, 7], "dp=2,tp=2", "S(1) S(0)"), ([5, 7], "dp=2,tp=2", "S(1) S(1)"),
            ([5, 7], "dp=2,tp=2", "R S(1)"), ([5, 7], "dp=2,tp=2", "S(-1) R"), ([5, 7], "dp=2,tp=2", "R R"),
            ([5, 7], "dp=3,tp=2", "S(0) S(1)"), ([5, 7], "dp=3,tp=2", "S(-1) S(-2)"), ([5, 7], "dp=3,tp=2", "S(1) S(-1)"),
            ([2, 3], "dp=2,tp=4", "S(0) S(1)"), ([2, 3], "dp=4,tp=2", "S(0) S(1)"), ([2, 3], "dp=4,tp=2", "S(1) S(0)"),
            ([7, 0], "dp=2,tp=3", "S(0) S(1)"), ([1, 9], "dp=2,tp=3", "S(0) S(1)")):
        add(shape, mesh, *p.split())
    # three and four dimensions
    for shape, mesh, p in (
            ([3, 4, 5], "dp=2", "S(1)"), ([3, 4, 5], "dp=3", "S(2)"), ([3, 4, 5], "dp=4", "S(-3)"),
            ([3, 0, 2], "dp=2", "S(0)"), ([3, 0, 2], "dp=2", "S(2)"),
            ([3, 4, 5], "dp=2,tp=2", "S(1) S(2)"), ([3, 4, 5], "dp=2,tp=3", "S(2) S(0)"),
            ([3, 4, 5], "dp=3,tp=2", "S(-1) S(2)"), ([1, 5, 2], "dp=2,tp=4", "S(0) S(1)"),
            ([2, 3, 4, 5], "dp=3", "S(1)"), ([2, 3, 4, 5], "dp=4", "S(3)"), ([2, 3, 4, 5], "dp=2,tp=2", "S(-1) S(-2)"),
            ([2, 3, 4, 5], "dp=2,tp=3", "S(3) S(3)"), ([3, 1, 2, 2], "dp=2,tp=2", "S(1) S(0)")):
        add(shape, mesh, *p.split())
    # three axes
    for shape, mesh, p in (
            ([7], "dp=2,cp=2,tp=2", "S(0) S(0) S(0)"), ([9], "dp=2,cp=2,tp=2", "S(0) S(0) S(0)"),
            ([3], "dp=2,cp=2,tp=2", "S(0) S(0) S(0)"), ([17], "dp=2,cp=2,tp=2", "S(0) R S(0)"),
            ([13], "dp=2,cp=3,tp=2", "S(0) S(0) S(0)"), ([13], "dp=3,cp=2,tp=2", "S(0) S(0) S(0)"),
            ([23], "dp=3,cp=2,tp=2", "S(0) S(0) S(0)"), ([5, 3], "dp_replicate=2,dp_shard=2,tp=2", "R S(0) S(1)"),
            ([5, 3], "dp_replicate=2,dp_shard=2,tp=2", "R S(0) S(0)"), ([5, 3], "dp=2,cp=2,tp=2", "S(1) S(0) S(1)"),
            ([3, 5, 2], "dp=2,cp=2,tp=2", "S(0) S(1) S(2)"), ([3, 5, 2], "dp=2,cp=3,tp=2", "S(2) S(1) S(-2)"),
            ([2, 3, 2, 3], "dp=2,cp=2,tp=2", "S(3) S(1) S(3)"), ([5, 7], "dp=1,cp=2,tp=3", "S(0) S(1) S(1)"),
            ([5, 7], "dp=2,cp=2,tp=2", "R R R")):
        add(shape, mesh, *p.split())
    return out


def strided_cases():
    out = []

    def add(shape, mesh, p):
        out.append({"kind": "strided", "shape": list(shape), "mesh": mesh_of(mesh), "placements": p.split()})

    # the worked examples of the rules
    add([8], "dp=2,tp=2", "SS(0,2) S(0)")
    add([5], "dp=2,tp=2", "SS(0,2) S(0)")
    add([8], "dp=2,tp=2", "S(0) SS(0,2)")
    # SS(0,tp) S(0) over (dp,tp): what FSDP2 over TP says about itself
    for mesh, ns in (("dp=2,tp=2", (0, 1, 2, 3, 6, 7, 9)), ("dp=3,tp=2", (1, 4, 5, 6, 7, 8, 9, 12, 13)),
                     ("dp=2,tp=3", (2, 4, 5, 7, 8, 10, 13)), ("dp=2,tp=4", (3, 5, 9, 11, 16, 17)),
                     ("dp=4,tp=2", (3, 5, 7, 9, 11, 13, 17)), ("dp=3,tp=4", (7, 23))):
        for n in ns:
            add([n], mesh, "SS(0,%s) S(0)" % mesh[-1])
    # one axis: several runs on a rank
    for n, k, f in ((9, 4, 2), (9, 2, 4), (12, 3, 2), (7, 2, 3), (5, 3, 2), (5, 2, 5), (5, 2, 7), (6, 4, 1), (1, 2, 2),
                    (0, 2, 2), (17, 5, 3)):
        add([n], "dp=%d" % k, "SS(0,%d)" % f)
    # the strided one on the right, twice, and with factors that are not the neighbour's size
    for n, mesh, p in ((8, "dp=2,tp=2", "S(0) SS(0,3)"), (13, "dp=2,tp=3", "S(0) SS(0,2)"), (7, "dp=3,tp=2", "S(0) SS(0,2)"),
                       (12, "dp=2,tp=2", "SS(0,2) SS(0,2)"), (13, "dp=2,tp=3", "SS(0,3) SS(0,2)"),
                       (13, "dp=2,tp=2", "SS(0,3) S(0)"), (16, "dp=2,tp=2", "SS(0,4) S(0)"), (11, "dp=2,tp=4", "SS(0,2) S(0)"),
                       (16, "dp=2,cp=2,tp=2", "SS(0,4) SS(0,2) S(0)"), (13, "dp=2,cp=2,tp=2", "SS(0,4) SS(0,2) S(0)"),
                       (11, "dp_replicate=2,dp_shard=2,tp=2", "R SS(0,2) S(0)"), (19, "dp=3,cp=2,tp=2", "SS(0,4) S(0) S(0)")):
        add([n], mesh, p)
    # other dimensions
    for shape, mesh, p in (([3, 8], "dp=2,tp=2", "SS(1,2) S(1)"), ([3, 7], "dp=3,tp=2", "SS(1,2) S(1)"),
                           ([3, 7], "dp=3,tp=2", "SS(-1,2) S(-1)"), ([5, 7], "dp=2,tp=2", "SS(0,2) S(1)"),
                           ([5, 7], "dp=2,tp=2", "SS(0,2) SS(1,3)"), ([7, 2], "dp=2,tp=2", "SS(0,2) S(0)"),
                           ([2, 9, 3], "dp=2,tp=2", "SS(1,2) S(1)"), ([2, 5, 9], "dp=2,tp=4", "SS(2,4) S(2)"),
                           ([2, 2, 3, 7], "dp=2,tp=2", "SS(3,2) SS(-1,2)"), ([0, 3], "dp=2,tp=2", "SS(1,2) S(1)")):
        add(shape, mesh, p)
    return out


def fsdp2_cases():
    out = []

    def add(shape, mesh, tp="", dim=0, via=None):
        out.append({"kind": "fsdp2", "shape": list(shape), "mesh": mesh_of(mesh), "tp": tp.split(), "dim": dim,
                    "via": via})

    # FSDP2 alone
    for n, k in ((8, 2), (7, 2), (7, 3), (5, 4), (2, 4), (1, 3), (13, 5), (3, 8), (17, 8)):
        add([n], "dp_shard=%d" % k)
    for shape, k in (([5, 3], 4), ([7, 2, 3], 3), ([1, 9], 2)):
        add(shape, "dp_shard=%d" % k)
    add([3, 8], "dp_shard=4", dim=1)  # shard_placement_fn: only even sizes are allowed there
    add([2, 3, 6], "dp_shard=3", dim=2)
    # HSDP
    for shape, mesh in (([7], "dp_replicate=2,dp_shard=4"), ([5], "dp_replicate=2,dp_shard=3"),
                        ([5, 3], "dp_replicate=3,dp_shard=2"), ([1, 4], "dp_replicate=2,dp_shard=2")):
        add(shape, mesh)
    # FSDP2 over TP, the same dimension
    for mesh, ns in (("dp_shard=2,tp=2", (8, 7, 5, 3, 1)), ("dp_shard=3,tp=2", (12, 7, 8, 9, 5, 13)),
                     ("dp_shard=2,tp=3", (12, 5, 7, 8)), ("dp_shard=2,tp=4", (16, 9, 11)),
                     ("dp_shard=4,tp=2", (9, 11, 13, 17)), ("dp_shard=3,tp=4", (23, 14))):
        for n in ns:
            add([n], mesh, "S(0)")
    # FSDP2 over TP, other dimensions
    for shape, mesh, tp, dim in (([7, 5], "dp_shard=3,tp=2", "S(0)", 0), ([7, 5], "dp_shard=3,tp=2", "S(1)", 0),
                                 ([5, 3], "dp_shard=2,tp=4", "S(1)", 0), ([2, 7], "dp_shard=4,tp=2", "S(1)", 0),
                                 ([7, 3], "dp_shard=2,tp=2", "R", 0), ([3, 8], "dp_shard=2,tp=2", "S(1)", 1),
                                 ([3, 12], "dp_shard=3,tp=2", "S(1)", 1), ([5, 8], "dp_shard=2,tp=2", "S(0)", 1),
                                 ([5, 4, 3], "dp_shard=2,tp=2", "S(2)", 0)):
        add(shape, mesh, tp, dim)
    # HSDP over TP, and over two model axes
    for shape, mesh, tp in (([8], "dp_replicate=2,dp_shard=2,tp=2", "S(0)"), ([7], "dp_replicate=2,dp_shard=3,tp=2", "S(0)"),
                            ([5, 3], "dp_replicate=2,dp_shard=2,tp=2", "S(1)"), ([9, 5], "dp_shard=2,ep=2,tp=2", "S(0) S(1)"),
                            ([16], "dp_shard=2,ep=2,tp=2", "S(0) S(0)"), ([11], "dp_shard=2,ep=2,tp=2", "S(0) S(0)")):
        add(shape, mesh, tp)
    # parameters made by parallelize_module from an nn.Linear
    for shape, mesh, via in (([10, 6], "dp_shard=2,tp=2", "colwise weight"), ([10], "dp_shard=2,tp=2", "colwise bias"),
                             ([7, 6], "dp_shard=3,tp=2", "colwise weight"), ([7], "dp_shard=3,tp=2", "colwise bias"),
                             ([7, 5], "dp_shard=3,tp=2", "rowwise weight"), ([7], "dp_shard=3,tp=2", "rowwise bias")):
        add(shape, mesh, via=via)
    return out


def fsdp1_cases():
    out = []

    def add(mesh, orig, groups, dtype="F32", param_dtype=None, tied=None):
        c = {"kind": "fsdp1", "mesh": mesh_of(mesh), "use_orig_params": orig, "dtype": dtype}
        if param_dtype:
            c["param_dtype"] = param_dtype
        c["want"] = groups
        c["tied"] = tied
        out.append(c)

    linear = [["weight", [5, 3]], ["bias", [5]]]
    odd = [["a", [7]], ["b", [1]], ["c", [2, 3]], ["d", [3, 3, 3]]]
    tiny = [["a", [2]], ["b", [1]]]
    for orig in (False, True):
        add("dp_shard=2", orig, [linear])
        add("dp_shard=3", orig, [odd])
        add("dp_shard=4", orig, [odd])
        add("dp_shard=4", orig, [tiny])
        add("dp_shard=8", orig, [tiny])
        add("dp_shard=3", orig, [[["a", [4, 4]], ["b", [8]]]])  # already aligned: only the tail
        add("dp_shard=3", orig, [[["emb", [5, 3]], ["norm", [3]]], linear, odd])  # wrapped blocks in a root
        add("dp_replicate=2,dp_shard=3", orig, [odd])
        add("dp_shard=3", orig, [odd], dtype="BF16")
        add("dp_shard=3", orig, [odd], param_dtype="BF16")  # mixed precision
        add("dp_shard=2", orig, [[["a", [3, 3]], ["b", [5]]]], tied=["tie", "a"])
    return out


def refused_cases():
    return [{"kind": "refused", "shape": s, "mesh": mesh_of(m), "placements": p.split()}
            for s, m, p in (([], "dp=2", "S(0)"), ([4], "dp=2", "S(1)"), ([4, 6], "dp=2", "S(2)"), ([4, 6], "dp=2", "S(3)"),
                            ([4, 6], "dp=2", "S(-3)"), ([4, 6], "dp=2", "SS(2,2)"), ([4], "dp=2,tp=2", "S(0)"))]


def all_cases():
    return dtensor_cases() + strided_cases() + fsdp2_cases() + fsdp1_cases() + refused_cases()


# ------------------------------------------------------------------------------ asking torch, in each rank


def runs(indices):
    out = []
    for i in indices:
        if out and out[-1][0] + out[-1][1] == i:
            out[-1][1] += 1
        else:
            out.append([i, 1])
    return out


def describe(local, shape):
    """The runs for each dimension of a local tensor that holds flat indices of the full tensor."""
    lshape = list(local.shape)
    if prod(lshape) == 0:
        return {"local": lshape, "dims": []}
    assert len(lshape) == len(shape), (lshape, shape)
    values = [int(v) for v in local.reshape(-1).tolist()]
    index = []
    for d in range(len(shape)):
        step, gstep = prod(lshape[d + 1:]), prod(shape[d + 1:])
        index.append([values[i * step] // gstep % shape[d] for i in range(lshape[d])])
    again = [sum(i * prod(shape[d + 1:]) for d, i in enumerate(ix)) for ix in itertools.product(*index)]
    assert again == values, "not a product of index runs: %r %r" % (shape, values)
    return {"local": lshape, "dims": [runs(i) for i in index]}


def placement_text(p):
    name = type(p).__name__
    if name == "_StridedShard":
        return "SS(%d,%d)" % (p.dim, p.split_factor)
    return {"Shard": lambda: "S(%d)" % p.dim, "Replicate": lambda: "R"}[name]()


class Rank:
    """One rank of a gloo process group."""

    def __init__(self, rank, world):
        import torch
        self.torch, self.rank, self.world, self.meshes = torch, rank, world, {}
        self.notes = []

    def mesh(self, axes):
        key = tuple(map(tuple, axes))
        if key not in self.meshes:
            from torch.distributed.device_mesh import init_device_mesh
            self.meshes[key] = init_device_mesh("cpu", tuple(k for _, k in axes), mesh_dim_names=tuple(a for a, _ in axes))
        return self.meshes[key]

    def placement(self, text):
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.placement_types import _StridedShard
        if text == "R":
            return Replicate()
        args = [int(a) for a in text[text.index("(") + 1:-1].split(",")]
        return _StridedShard(args[0], split_factor=args[1]) if text.startswith("SS") else Shard(args[0])

    def positive(self, text, ndim):
        p = self.placement(text)
        d = p.dim + ndim if p.dim < 0 else p.dim
        return self.placement("SS(%d,%d)" % (d, p.split_factor) if text.startswith("SS") else "S(%d)" % d)

    def full(self, shape, dtype=None):
        return self.torch.arange(prod(shape), dtype=dtype or self.torch.int64).view(tuple(shape))

    def run(self, case):
        return getattr(self, "run_" + case["kind"])(case)

    def split(self, shape, mesh, placements, dtype=None):
        """The local tensor by the placements' own _split_tensor, from left to right, without any collective."""
        local = self.full(shape, dtype)
        for axis, p in enumerate(placements):
            if hasattr(p, "_split_tensor"):
                parts, _ = p._split_tensor(local, mesh.size(axis), with_padding=False, contiguous=True)
                local = parts[mesh.get_coordinate()[axis]]
        return local

    def run_dtensor(self, case):
        import inspect
        from torch.distributed.tensor import distribute_tensor
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
        mesh, shape = self.mesh(case["mesh"]), case["shape"]
        given = [self.placement(p) for p in case["placements"]]
        local_only = "src_data_rank" in inspect.signature(distribute_tensor).parameters
        answers = {}
        try:
            answers["scatter"] = distribute_tensor(self.full(shape), mesh, given).to_local()
        except (AssertionError, RuntimeError) as e:
            if case["kind"] != "strided":
                raise
            self.notes.append("distribute_tensor refuses to scatter: %s" % type(e).__name__)
        if local_only:
            answers["src_data_rank=None"] = distribute_tensor(self.full(shape), mesh, given, src_data_rank=None).to_local()
        placements = [self.placement(p) if p == "R" else self.positive(p, len(shape)) for p in case["placements"]]
        answers["_split_tensor"] = self.split(shape, mesh, placements)
        local = list(answers.values())[0]
        for how, other in answers.items():
            if other.shape != local.shape or not bool((other == local).all()):
                self.notes.append("%s and %s differ" % (list(answers)[0], how))
        got = describe(local, shape)
        lshape, off = compute_local_shape_and_global_offset(tuple(shape), mesh, placements)
        got["off"] = list(off)
        if list(lshape) != got["local"]:
            self.notes.append("compute_local_shape_and_global_offset says another local shape")
        try:  # what the same function says when the caller gives negative dimensions
            raw = compute_local_shape_and_global_offset(tuple(shape), mesh, given)
            if raw != (lshape, off):
                self.notes.append("compute_local_shape_and_global_offset with the dimensions as given says something else")
        except Exception as e:
            self.notes.append("compute_local_shape_and_global_offset with the dimensions as given: %s" % type(e).__name__)
        return {"local": got["local"], "off": got["off"], "dims": got["dims"]}

    run_strided = run_dtensor

    def run_refused(self, case):
        from torch.distributed.tensor import distribute_tensor
        try:
            t = distribute_tensor(self.full(case["shape"]), self.mesh(case["mesh"]),
                                  [self.placement(p) for p in case["placements"]])
        except Exception as e:
            return {"error": type(e).__name__}
        self.notes.append("not refused: %r" % list(t.to_local().shape))
        return {"error": None}

    def run_fsdp2(self, case):
        torch = self.torch
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import Shard, distribute_tensor
        nn, shape, axes = torch.nn, case["shape"], case["mesh"]
        full = self.full(shape, torch.float32)
        mesh = self.mesh(axes)
        dp = [a for a, _ in axes if a.startswith("dp")]
        model = [a for a, _ in axes if not a.startswith("dp")]
        dp_mesh = mesh if not model else mesh[tuple(dp)] if len(dp) > 1 else mesh[dp[0]]
        m_mesh = None if not model else mesh[tuple(model)] if len(model) > 1 else mesh[model[0]]
        module, name = nn.Module(), "p"
        if case["via"]:
            from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
            style, name = case["via"].split()
            module = nn.Linear(shape[1] if len(shape) > 1 else 6, shape[0])
            with torch.no_grad():
                getattr(module, name).copy_(full)
            module = parallelize_module(module, m_mesh, ColwiseParallel() if style == "colwise" else RowwiseParallel())
            tp = [placement_text(p) for p in getattr(module, name).placements]
        else:
            tp, param = case["tp"], full
            if model:
                param = distribute_tensor(full, m_mesh, [self.placement(p) for p in tp])
            module.register_parameter("p", nn.Parameter(param))
        kw = {}
        if case["dim"]:
            kw["shard_placement_fn"] = lambda p: Shard(case["dim"])
        fully_shard(module, mesh=dp_mesh, **kw)
        param = getattr(module, name)
        state = module._get_fsdp_state()
        groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
        fp = [p for g in groups for p in g.fsdp_params if p._module_info.param_name == name]
        assert len(fp) == 1
        stored = fp[0]._sharded_param_data  # 1-d, padded
        size = list(fp[0].sharded_size)
        # padding is at the end of the sharded dimension: cut it off there
        stored = stored.view(fp[0].padded_sharded_param_size).narrow(case["dim"], 0, size[case["dim"]]) if prod(size) else \
            stored.new_empty(size)
        local = param.to_local().detach()
        assert local.shape == stored.shape and bool((local == stored).all()), (case, local, stored)
        got = describe(stored, shape)
        try:
            formula = self.split(shape, param.device_mesh, param.placements, torch.float32)
        except AssertionError:  # torch 2.6: uneven _StridedShard
            formula = None
        got["_same"] = None if formula is None else formula.numel() == stored.numel() and bool((formula.reshape(-1) == stored.reshape(-1)).all())
        got["_mesh"] = list(param.device_mesh.mesh_dim_names) == [a for a, _ in axes]
        got["_placements"] = [placement_text(p) for p in param.placements]
        got["_storage"] = [[a, p] for a, p in zip(model, tp) if p != "R"] + [[dp[-1], "S(%d)" % case["dim"]]]
        return got

    def run_fsdp1(self, case):
        torch = self.torch
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        from torch.distributed.fsdp import MixedPrecision, ShardingStrategy
        types = {"F32": torch.float32, "BF16": torch.bfloat16}
        nn, values, count = torch.nn, {}, 0

        def module(params):
            nonlocal count
            m = nn.Module()
            for name, shape in params:
                # values up to 255 are exact in bfloat16 too
                v = ((torch.arange(prod(shape)) + count) % 251).to(types[case["dtype"]]).view(tuple(shape))
                count += prod(shape)
                m.register_parameter(name, nn.Parameter(v.clone()))
            return m

        kw = {"use_orig_params": case["use_orig_params"], "device_id": torch.device("cpu")}
        if "param_dtype" in case:
            kw["mixed_precision"] = MixedPrecision(param_dtype=types[case["param_dtype"]])
        mesh = self.mesh(case["mesh"])
        kw["device_mesh"] = mesh
        if len(case["mesh"]) > 1:
            kw["sharding_strategy"] = ShardingStrategy.HYBRID_SHARD
        root = module(case["want"][0])
        if case["tied"]:
            root.register_parameter(case["tied"][0], getattr(root, case["tied"][1]))
        values = [{n: p.detach().clone() for n, p in root.named_parameters()}]
        for i, params in enumerate(case["want"][1:]):
            block = module(params)
            values.append({n: p.detach().clone() for n, p in block.named_parameters()})
            root.add_module("block%d" % i, FSDP(block, **kw))
        root = FSDP(root, **kw)
        out = {"_groups": [], "_align": 1, "held": []}
        for g, mod in enumerate(FSDP.fsdp_modules(root)):
            h = mod._handle
            flat = h.flat_param
            assert not case["tied"] or len(flat._shared_param_infos) == 1
            begins = [b for (b, _), pad in zip(h._get_flat_param_offsets(), flat._is_padding_mask) if not pad]
            data = (flat._local_shard if getattr(flat, "_local_shard", None) is not None else flat).detach().reshape(-1)
            held = []
            for fqn, info in zip(flat._fqns, flat._shard_param_infos):
                if info.in_shard:
                    b, e = info.intra_param_start_idx, info.intra_param_end_idx + 1
                    mine = data[info.offset_in_shard:info.offset_in_shard + info.numel_in_shard]
                    assert bool((mine == values[g][fqn].reshape(-1)[b:e]).all()), (case, fqn)
                    held.append([b, e])
                else:
                    held.append([0, 0])
            numel = sum(flat._numels_with_padding)
            assert numel == flat._unpadded_unsharded_size.numel()
            out["_groups"].append({"params": [[n, list(s), b] for n, s, b in zip(flat._fqns, flat._shapes, begins)],
                                   "numel": numel, "shard": data.numel()})
            out["_align"] = max(1, h._aligned_numel)
            out["held"].append(held)
        return out


def rank_main(rank, world, store, cases, path):
    import datetime
    import logging
    import warnings
    import torch
    import torch.distributed as dist
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=120))
    me, out = Rank(rank, world), []
    for i, case in cases:
        me.notes = []
        try:
            got = me.run(case)
        except Exception as e:
            import traceback
            got = {"failed": "%s: %s" % (type(e).__name__, str(e).split("\n")[0][:300]), "trace": traceback.format_exc()}
        out.append([i, got, me.notes])
    with open(path, "w") as f:
        json.dump(out, f)
    dist.barrier()
    dist.destroy_process_group()


def ask_torch(cases):
    import multiprocessing
    import tempfile
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch
    import torch.distributed.fsdp  # imported once, before the forks
    import torch.distributed.tensor.parallel  # noqa: F401
    import torch._dynamo  # noqa: F401  (slow, and each rank would import it by itself)
    torch.set_num_threads(1)
    fork = multiprocessing.get_context("fork")
    answers, notes = [[] for _ in cases], [{} for _ in cases]
    by_world = {}
    for i, c in enumerate(cases):
        by_world.setdefault(prod(k for _, k in c["mesh"]), []).append((i, c))
    with tempfile.TemporaryDirectory() as tmp:
        for world in sorted(by_world):
            files = [os.path.join(tmp, "%d.%d" % (world, r)) for r in range(world)]
            procs = [fork.Process(target=rank_main, args=(r, world, os.path.join(tmp, "store%d" % world), by_world[world], files[r]))
                     for r in range(world)]
            for p in procs:
                p.start()
            for p in procs:
                p.join()
            assert all(p.exitcode == 0 for p in procs), "a rank died, world size %d" % world
            for r, name in enumerate(files):
                for i, got, said in json.load(open(name)):
                    answers[i].append(got)
                    if said:
                        notes[i][r] = said
            print("%d ranks: %d cases" % (world, len(by_world[world])), file=sys.stderr)
    return torch.__version__, answers, notes


def assemble(case, ranks):
    """The case as it is written, or None if torch failed."""
    c = {k: v for k, v in case.items() if k not in ("tp", "dim", "via", "want", "tied")}
    bad = [r for r in ranks if "failed" in r]
    if bad:
        print("FAILED %s\n  %s" % (json.dumps(case), bad[0]["failed"]), file=sys.stderr)
        if os.environ.get("TRACE"):
            print(bad[0]["trace"], file=sys.stderr)
        return None
    if case["kind"] == "refused":
        assert len({r["error"] for r in ranks}) == 1
        c["error"] = ranks[0]["error"]
        return c
    if case["kind"] == "fsdp2":
        assert all(r["_mesh"] for r in ranks)
        assert all(r["_placements"] == ranks[0]["_placements"] for r in ranks)
        c["placements"] = ranks[0]["_placements"]
        c["storage"] = ranks[0]["_storage"]
        c["formula_same"] = None if None in [r["_same"] for r in ranks] else all(r["_same"] for r in ranks)
        if case["via"]:
            c["via"] = case["via"]
    if case["kind"] == "fsdp1":
        assert all(r["_groups"] == ranks[0]["_groups"] for r in ranks)
        c["placements"] = ["R"] * (len(case["mesh"]) - 1) + ["F"]
        c["align"] = ranks[0]["_align"]
        c["groups"] = ranks[0]["_groups"]
        c["ranks"] = [r["held"] for r in ranks]
        return c
    c["ranks"] = [{k: v for k, v in r.items() if k[0] != "_"} for r in ranks]
    return c


# ---------------------------------------------- the rules in plain Python, to compare (independent of torch)


def coordinates(mesh):
    return list(itertools.product(*[range(k) for _, k in mesh]))


def chunk(indices, k):
    c = -(-len(indices) // k)
    n = len(indices)
    return [indices[min(r * c, n):min((r + 1) * c, n)] for r in range(k)]


def rule_split(index, placement, k, r):
    """Splits index (a list of indices for each dimension) for coordinate r of an axis with k ranks."""
    if placement == "R":
        return index
    args = [int(a) for a in placement[placement.index("(") + 1:-1].split(",")]
    d = args[0] + len(index) if args[0] < 0 else args[0]
    if not 0 <= d < len(index):
        raise IndexError(placement)
    index = list(index)
    if placement.startswith("SS"):
        index[d] = [i for part in chunk(index[d], args[1]) for i in chunk(part, k)[r]]
    else:
        index[d] = chunk(index[d], k)[r]
    return index


def rule_ranks(shape, mesh, order):
    """order: [[axis,placement],...]"""
    axis = {a: i for i, (a, _) in enumerate(mesh)}
    out = []
    for coord in coordinates(mesh):
        index = [list(range(n)) for n in shape]
        for a, p in order:
            index = rule_split(index, p, mesh[axis[a]][1], coord[axis[a]])
        local = [len(i) for i in index]
        out.append({"local": local, "off": [i[0] if i else n for i, n in zip(index, shape)],
                    "dims": [runs(i) for i in index] if prod(local) else []})
    return out


def rule_flat(case, align):
    """Flat ranges when every parameter begins at a multiple of align."""
    k = case["mesh"][-1][1]
    out = []
    for coord in coordinates(case["mesh"]):
        groups = []
        for g in case["groups"]:
            at, begins = 0, []
            for _, shape, _ in g["params"]:
                at = -(-at // align) * align
                begins.append(at)
                at += prod(shape)
            m = -(-at // k)
            lo, hi, held = coord[-1] * m, (coord[-1] + 1) * m, []
            for (_, shape, _), b in zip(g["params"], begins):
                x, y = max(lo, b), min(hi, b + prod(shape))
                held.append([x - b, y - b] if x < y else [0, 0])
            groups.append(held)
        out.append(groups)
    return out


def check(doc):
    """Compares every case with the rules and prints where they differ. Returns the number of differences, not
    counting the two that are explained above (KNOWN)."""
    cases, bad, count = doc["cases"], 0, {}

    def differ(case, what, known=False):
        nonlocal bad
        bad += not known
        short = {k: v for k, v in case.items() if k not in ("ranks", "groups")}
        if case["kind"] == "fsdp1":
            short["groups"] = [[p[:2] for p in g["params"]] for g in case["groups"]]
        print("%s %s: %s" % ("KNOWN" if known else "DIFFERS", json.dumps(short, separators=(",", ":")), what))

    for c in cases:
        kind = c["kind"]
        count[kind] = count.get(kind, 0) + 1
        if kind == "refused":
            try:
                rule_ranks(c["shape"], c["mesh"], [[a, p] for (a, _), p in zip(c["mesh"], c["placements"])])
                refused = len(c["placements"]) != len(c["mesh"])
            except IndexError:
                refused = True
            if refused != (c["error"] is not None):
                differ(c, "the rules %s" % ("refuse, torch does not" if refused else "do not refuse"))
            continue
        assert len(c["ranks"]) == prod(k for _, k in c["mesh"])
        if kind == "fsdp1":
            if c["align"] != (1 if not c["use_orig_params"] else 16 // {"F32": 4, "BF16": 2}[c.get("param_dtype", c["dtype"])]):
                differ(c, "align")
            elif rule_flat(c, c["align"]) != c["ranks"]:
                differ(c, "not what align says")
            elif rule_flat(c, 1) != c["ranks"]:
                differ(c, "not concatenated without gaps", known=True)
            continue
        order = [[a, p] for (a, _), p in zip(c["mesh"], c["placements"])]
        if kind in ("dtensor", "strided"):
            want = rule_ranks(c["shape"], c["mesh"], order)
            for r, (w, g) in enumerate(zip(want, c["ranks"])):
                for key in ("local", "dims", "off"):
                    if w[key] != g[key]:
                        differ(c, "rank %d: %s is %r, the rules say %r" % (r, key, g[key], w[key]))
        else:
            def plain(ranks):
                return [{"local": r["local"], "dims": r["dims"]} for r in ranks]

            def elements(ranks):
                return [r["dims"] if prod(r["local"]) else None for r in ranks]
            rule = plain(rule_ranks(c["shape"], c["mesh"], c["storage"]))
            if elements(rule) != elements(c["ranks"]):
                differ(c, "not the storage rule (model axes first, then dp)")
            elif rule != c["ranks"]:
                differ(c, "only in the shape that torch gives an empty shard", known=True)
            same = elements(rule_ranks(c["shape"], c["mesh"], order)) == elements(c["ranks"])
            if c["formula_same"] not in (None, same):
                differ(c, "formula_same")
    print("checked %s" % ", ".join("%d %s" % (n, k) for k, n in count.items()))
    return bad


# --------------------------------------------------------------------------------------------------- main


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-o", default=os.path.join(HERE, "layouts.json"))
    ap.add_argument("--check", action="store_true", help="only compare the file with the rules")
    args = ap.parse_args()
    if args.check:
        sys.exit(1 if check(json.load(open(args.o))) else 0)
    cases = all_cases()
    seen = set()
    for c in cases:
        text = json.dumps(c, sort_keys=True)
        assert text not in seen, "twice: " + text
        seen.add(text)
    version, answers, notes = ask_torch(cases)
    done, counts, remarks = [], {}, {}
    for case, ranks, said in zip(cases, answers, notes):
        c = assemble(case, ranks)
        for text in sorted({t for v in said.values() for t in v}):
            remarks.setdefault((case["kind"], text), []).append(
                "%r/(%s) %s" % (case["shape"], ",".join("%d" % k for _, k in case["mesh"]), " ".join(case["placements"])))
        if c:
            done.append(c)
            counts[c["kind"]] = counts.get(c["kind"], 0) + 1
    for (kind, text), where in remarks.items():
        print("NOTE %s: %s, in %d cases: %s" % (kind, text, len(where), "; ".join(where)), file=sys.stderr)
    header = {"format": 1, "torch": version, "made_by": "tests/vectors/make_layout_vectors.py", "counts": counts}
    with open(args.o, "w") as f:
        f.write('{"header":%s,\n"cases":[\n' % json.dumps(header, separators=(",", ":")))
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in done))
        f.write("\n]}\n")
    print("%s: %d cases, %d bytes" % (args.o, len(done), os.path.getsize(args.o)), file=sys.stderr)
    sys.exit(1 if check(json.load(open(args.o))) else 0)


if __name__ == "__main__":
    main()
