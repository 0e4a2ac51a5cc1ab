"""Any HDF5 file is welcome: one made by h5py with every kind of dataset and link loads the same through all three ways of
reading, equal to what h5py reads; what can't be a tensor is listed with its reason and is an error when asked for by name."""
import filecmp
import json

import h5py
import numpy as np

from lib import Run, bits, check, cut, coordinate_of, read_safetensors, work_folder

work = work_folder()
random = np.random.default_rng(8)


def custom_float(exponent, mantissa, bias):
    """Fields, precision, size, bias, in the order that hdf5.md asks for."""
    width = 1 + exponent + mantissa
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(width - 1, mantissa, exponent, 0, mantissa)
    kind.set_precision(width)
    kind.set_size(width // 8)
    kind.set_ebias(bias)
    return kind


want = {}     # name: (safetensors dtype, bit patterns)
aliases = {}  # name: other names
skipped = {}  # name: words of the reason


def make(path):
    file = h5py.File(path, "w", userblock_size=1024, libver="earliest")

    def add(name, kind, values, **options):
        dataset = file.create_dataset(name, data=values, **options)
        plain = np.asarray(values).astype(dataset.dtype.newbyteorder("<"))
        want[name] = (kind, np.frombuffer(plain.tobytes(), bits(plain.dtype.itemsize)).reshape(plain.shape))

    def raw(name, kind, type_id, values):
        space = h5py.h5s.create_simple(values.shape)
        links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        dataset = h5py.h5d.create(file.id, name.encode(), type_id, space, lcpl=links)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=type_id)
        want[name] = (kind, values)

    f32 = random.standard_normal((37, 21)).astype(np.float32)
    add("plain/contiguous/f32", "F32", f32)
    add("plain/f64", "F64", random.standard_normal((9, 4, 3)))
    add("plain/f16", "F16", f32.astype(np.float16))
    for size in (1, 2, 4, 8):
        add(f"plain/i{8 * size}", f"I{8 * size}", random.integers(-100, 100, (17,)).astype(f"<i{size}"))
        add(f"plain/u{8 * size}", f"U{8 * size}", random.integers(0, 200, (5, 5)).astype(f"<u{size}"))
    add("plain/large", "F32", random.standard_normal((700, 513)).astype(np.float32))
    add("chunked/gzip_shuffle", "F32", np.repeat(f32, 9, 0), chunks=(16, 8), compression="gzip", shuffle=True)
    add("chunked/plain", "I32", random.integers(0, 9, (50, 40)).astype(np.int32), chunks=(7, 40))
    add("chunked/fletcher", "F64", random.standard_normal((30, 11)), chunks=(8, 11), fletcher32=True)
    add("chunked/growing", "I16", np.arange(99, dtype=np.int16), maxshape=(None,), chunks=(10,))
    add("big/f32", "F32", f32.astype(">f4"))
    add("big/i64_chunked", "I64", (np.arange(1000).reshape(100, 10) * -7).astype(">i8"), chunks=(9, 10), compression="gzip")
    add("scalar", "F64", np.float64(-2.5))
    add("empty", "F32", np.zeros((4, 0, 3), np.float32))
    add("empty_chunked", "U8", np.zeros((0, 5), np.uint8), maxshape=(None, 5), chunks=(3, 5))
    flags = random.integers(0, 2, (23, 2)).astype(bool)
    file.create_dataset("bool", data=flags)
    want["bool"] = ("BOOL", flags.astype(np.uint8))
    raw("custom/bf16", "BF16", custom_float(8, 7, 127), random.integers(0, 2**16, (41, 6)).astype("<u2"))
    raw("custom/f8_e4m3", "F8_E4M3", custom_float(4, 3, 7), np.arange(256, dtype="<u1").reshape(16, 16))
    raw("custom/f8_e5m2", "F8_E5M2", custom_float(5, 2, 15), np.arange(256, dtype="<u1").reshape(64, 4))

    # Never written: the fill value, in whole or in part.
    file.create_dataset("fill/value", (6, 5), "<i4", fillvalue=-3)
    want["fill/value"] = ("I32", np.full((6, 5), -3, "<i4").view("<u4"))
    file.create_dataset("fill/zero", (11,), ">f8", fillvalue=0)
    want["fill/zero"] = ("F64", np.zeros(11, "<u8"))
    file.create_dataset("fill/chunked", (12, 6), "<f4", chunks=(4, 6), fillvalue=1.5, compression="gzip")
    want["fill/chunked"] = ("F32", np.full((12, 6), 1.5, "<f4").view("<u4"))
    holes = file.create_dataset("fill/holes", (40, 6), "<u2", chunks=(8, 6), fillvalue=513)
    holes[9:11] = 7
    value = np.full((40, 6), 513, "<u2")
    value[9:11] = 7
    want["fill/holes"] = ("U16", value)

    for number, options in enumerate(({"compression": "gzip"}, {"fletcher32": True}, {"compression": "gzip", "shuffle": True})):
        some = file.create_dataset(f"fill/some{number}", (41, 10), "<f4", chunks=(8, 7), fillvalue=2.5, **options)
        value = np.full((41, 10), 2.5, "<f4")
        for rows in (slice(0, 9), slice(24, 25), slice(40, 41)):
            some[rows] = value[rows] = random.standard_normal((rows.stop - rows.start, 10)).astype("<f4")
        want[f"fill/some{number}"] = ("F32", value.view("<u4"))

    # Compact: the data in the object's header.
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_layout(h5py.h5d.COMPACT)
    compact = random.integers(0, 2**32, (5, 3)).astype("<u4")
    h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_U32LE, h5py.h5s.create_simple((5, 3)), create).write(
        h5py.h5s.ALL, h5py.h5s.ALL, compact)
    want["compact"] = ("U32", compact)

    # Links: one tensor, several names.
    file["tied/head"] = file["plain/large"]
    file["soft/large"] = h5py.SoftLink("/plain/large")
    aliases["plain/large"] = ["soft/large", "tied/head"]

    # What can't be a tensor.
    def skip(name, reason, *arguments, **options):
        file.create_dataset(name, *arguments, **options)
        skipped[name] = reason
    skip("odd/string", "variable-length string", data="words", dtype=h5py.string_dtype())
    skip("odd/fixed", "fixed-length string", data=np.array([b"abc", b"de"]))
    skip("odd/compound", "compound", data=np.zeros(3, [("a", "<f4"), ("b", "<i2")]))
    skip("odd/reference", "reference", data=[file["scalar"].ref], dtype=h5py.ref_dtype)
    skip("odd/vlen", "variable-length sequence", (3,), dtype=h5py.vlen_dtype(np.int32))
    skip("odd/opaque", "opaque", data=np.array([b"1234", b"5678"], "V4"))
    skip("odd/array", "array datatype", (3,), dtype=np.dtype(("<f4", (2,))))
    skip("odd/colour", "enumeration", data=[0, 1], dtype=h5py.enum_dtype({"RED": 0, "BLUE": 1}))
    skip("odd/null", "null", data=h5py.Empty("f4"))
    layout = h5py.VirtualLayout((37, 21), "<f4")
    layout[:] = h5py.VirtualSource(".", "plain/contiguous/f32", (37, 21))
    file.create_virtual_dataset("odd/virtual", layout)
    skipped["odd/virtual"] = "virtual"
    file["links/dangling"] = h5py.SoftLink("/nowhere")
    skipped["links/dangling"] = "dangling"
    file["links/cycle"] = file["links"]
    skipped["links/cycle"] = "cyclic"
    file["links/itself"] = h5py.SoftLink("/links/itself")
    skipped["links/itself"] = "dangling"
    file["links/elsewhere"] = h5py.ExternalLink("other.h5", "/x")
    skipped["links/elsewhere"] = "external"
    file.create_dataset("odd/outside", (8,), "<f4", external=[("raw.bin", 0, 32)])
    skipped["odd/outside"] = "external"
    file["odd/type"] = np.dtype("<f4")
    skipped["odd/type"] = "datatype"
    file.create_group("nothing/in/here")
    file.close()
    with h5py.File("other.h5", "w") as other:
        other["x"] = 1.0


make(work / "odd.h5")

# ---- inspect ------------------------------------------------------------------------------------------------------------
report = json.loads(Run(0, ["inspect", "odd.h5", "--json", "--tensors"]).out)
listed = {tensor["name"]: tensor for tensor in report["tensors"]}
check(set(listed) == set(want), f"inspect lists other tensors: {sorted(set(listed) ^ set(want))}")
for name, tensor in listed.items():
    check(tuple(tensor["shape"]) == want[name][1].shape, f"inspect: {name} has shape {tensor['shape']}")
    check(sorted(tensor["aliases"]) == aliases.get(name, []), f"inspect: {name} has the other names {tensor['aliases']}")
    check((tensor["byte_order"] == "big") == (name.startswith("big/") or name == "fill/zero"), f"inspect: {name}: byte order")
    check(tensor["crc64"] is None, f"inspect: {name} has a checksum")
    with h5py.File("odd.h5", "r") as file:
        offset = file[name].id.get_offset()  # includes the user block
        check(tensor["storage"] != "contiguous" or tensor["offset"] == offset,
              f"inspect: {name} at {tensor['offset']}, h5py says {offset}")
check(listed["chunked/gzip_shuffle"]["filters"][0] == "shuffle" and "deflate" in listed["chunked/gzip_shuffle"]["filters"][1],
      f"inspect: filters {listed['chunked/gzip_shuffle']['filters']}")
check(listed["chunked/gzip_shuffle"]["chunk"] == [16, 8], "inspect: chunk")
reasons = {entry["name"]: entry["reason"] for entry in report["skipped"]}
check(set(reasons) == set(skipped), f"inspect skips other objects: {sorted(set(reasons) ^ set(skipped))}")
for name, words in skipped.items():
    check(words in reasons[name], f"inspect: {name} is skipped because of '{reasons[name]}', expected '{words}'")
print(f"inspect: {len(want)} tensors, {len(skipped)} objects skipped, each with its reason")

# ---- load ---------------------------------------------------------------------------------------------------------------
placements = {"fsdp2": lambda name, shape: {"dp_shard": 0} if shape else {}, "replicate": lambda name, shape: {}}
loads = 0
for ranks, layout, size in ((1, "fsdp2", "1MiB"), (3, "fsdp2", "256"), (3, "replicate", "1MiB")):
    first = None
    for io in ("independent", "collective", "direct"):
        folder = work / f"{ranks}-{layout}-{io}"
        folder.mkdir()
        run = Run(ranks, ["load", "odd.h5", "--layout", layout, "--io", io, "--min-read", size, "--stage-out", folder,
                          "--verify", "shards", "--report", "report.json"])
        figures = json.loads((work / "report.json").read_text())
        check(figures["tensors_verified"] == 0 and figures["tensors_unverified"] == len(want),
              f"{figures['tensors_verified']} tensors count as verified in a file without checksums")
        check(figures["io"].startswith(io), f"io is {figures['io']}")
        check(round(figures["read_amplification"], 3) == 1, f"{folder.name}: amplification {figures['read_amplification']}")
        check(any("big-endian" in note for note in figures["notes"]), f"{folder.name}: nothing is said about byte order")
        check(any(f"{len(skipped)} objects" in note for note in figures["notes"]), f"{folder.name}: nothing about skipped objects")
        loads += 1
        if first:
            for file in sorted(first.iterdir()):
                check(filecmp.cmp(file, folder / file.name, shallow=False), f"{folder.name}/{file.name} differs from {first.name}")
            continue
        first = folder
        mesh = [("dp_shard", ranks)]
        for rank in range(ranks):
            tensors, metadata = read_safetensors(folder / f"rank-{rank:05}.safetensors")
            check(set(tensors) == set(want), f"{folder.name}: rank {rank} has other tensors")
            for name, (kind, whole) in want.items():
                offset, extent = cut(whole.shape, mesh, coordinate_of(rank, mesh), placements[layout](name, whole.shape))
                part = whole[tuple(slice(o, o + e) for o, e in zip(offset, extent))]
                check(tensors[name][0] == kind and tensors[name][1] == extent, f"{folder.name}: {name} is {tensors[name][:2]}")
                check(np.array_equal(tensors[name][2], part), f"{folder.name}: rank {rank}: {name} has other values than h5py")
            places = json.loads(metadata["slabload_tensors"])
            check(sorted(places["plain/large"]["aliases"]) == aliases["plain/large"], f"{folder.name}: other names are lost")
print(f"{loads} loads: independent, collective and direct give the same {len(want)} tensors, equal to h5py's")

# ---- by name --------------------------------------------------------------------------------------------------------------
for name in ("odd/compound", "links/dangling", "odd/virtual"):
    run = Run(2, ["load", "odd.h5", "--select", "plain/*", "--select", name], status=3)
    lines = [line for line in run.err.splitlines() if "slabload: error" in line]
    check(len(lines) == 1 and name in lines[0] and reasons[name] in lines[0], f"--select {name}: {run.err}")
for name, reason in reasons.items():  # the same words without MPI
    run = Run(0, ["plan", "odd.h5", "--select", name], status=3)
    check(name in run.err and reason in run.err, f"plan --select {name}: {run.err}")
run = Run(2, ["load", "odd.h5", "--select", "plain/*", "--select", "no_such*"], status=2)
check("no_such*" in run.err and "matches no tensor" in run.err, run.err)
run = Run(2, ["load", "odd.h5", "--exclude", "*"], status=2)
run = Run(2, ["load", "odd.h5", "--select", "tied/*", "--report", "report.json"])
check(json.loads((work / "report.json").read_text())["tensors"] == 1, "a tensor cannot be selected by its second name")
print(f"--select: {len(reasons)} skipped objects refused with their reasons")

# ---- what was never written has values all the same: its fill value ---------------------------------------------------------
def crc64(data):  # CRC-64/XZ, bit by bit
    crc = ~0 & (1 << 64) - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xC96C5795D7870F42 if crc & 1 else 0)
    return ~crc & (1 << 64) - 1


kinds = [("f", "<f4", 7.5, {}), ("big", ">i4", -3, {}), ("chunked", "<f8", 0.1, {"chunks": (4, 3)}), ("none", "<i2", None, {})]
with h5py.File(work / "unwritten.h5", "w") as unwritten, h5py.File(work / "written.h5", "w") as written, \
        h5py.File(work / "zeros.h5", "w") as zeros, h5py.File(work / "summed.h5", "w") as summed, h5py.File(work / "wrong.h5", "w") as wrong:
    for name, kind, fill, more in kinds:
        values = np.full((30, 10), 0 if fill is None else fill, kind)
        crc = crc64(values.astype(values.dtype.newbyteorder("<")).tobytes())
        unwritten.create_dataset(name, values.shape, kind, fillvalue=fill, **more)
        written.create_dataset(name, data=values, **more)
        zeros.create_dataset(name, data=np.zeros_like(values), **more)
        summed.create_dataset(name, values.shape, kind, fillvalue=fill, **more).attrs["slabload_crc64"] = np.uint64(crc)
        wrong.create_dataset(name, values.shape, kind, fillvalue=fill, **more).attrs["slabload_crc64"] = np.uint64(crc ^ 1)
for ranks in (1, 3):
    for pair in (("unwritten.h5", "written.h5"), ("written.h5", "unwritten.h5")):
        run = Run(ranks, ["verify", pair[0], "--against", pair[1]])
        check("# tensors equal 4, different 0" in run.out, run.out)
    run = Run(ranks, ["verify", "unwritten.h5", "--against", "zeros.h5"], status=1)
    check("# tensors equal 1, different 3" in run.out, run.out)  # the one whose fill value is zero
    run = Run(ranks, ["verify", "summed.h5", "--trust-index"])
    check("# tensors verified 4, unverified 0" in run.out, run.out)
    Run(ranks, ["load", "summed.h5", "--trust-index", "--report", "report.json"])
    check(json.loads((work / "report.json").read_text())["tensors_verified"] == 4, "checksums of fill values are not looked at")
    for verb in ("verify", "load"):
        run = Run(ranks, [verb, "wrong.h5", "--trust-index"], status=1)
        check("# wrong 4" in run.out or "#wrong 4" in run.out, run.out)
print("never written: equal to what is written with the same values, and their checksums count")
