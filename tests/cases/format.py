"""The format, from src/format.md alone: h5py and a CRC of twelve lines find in a new file what the page says; the files that
earlier versions wrote, kept in tests/data, load as they did."""
import json
import shutil
import struct

import h5py
import numpy as np

from lib import DTYPES, TOP, Run, check, read_safetensors, synthetic, work_folder, write_safetensors

work = work_folder()


def crc64(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0xC96C5795D7870F42 if byte & 1 else 0)
        table.append(byte)
    crc = (1 << 64) - 1
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 255]
    return crc ^ ((1 << 64) - 1)


check(crc64(b"123456789") == 0x995DC9BBDF1939FA, "the CRC of this test is not CRC-64/XZ")
FLOATS = {(8, 11, 52, 1023): "f64", (4, 8, 23, 127): "f32", (2, 5, 10, 15): "f16", (2, 8, 7, 127): "bf16", (1, 5, 2, 15): "f8_e5m2",
          (1, 4, 3, 7): "f8_e4m3"}


def dtype_of(type_id):
    if isinstance(type_id, h5py.h5t.TypeEnumID):
        return "bool"
    size = type_id.get_size()
    if isinstance(type_id, h5py.h5t.TypeFloatID):
        _, _, exponent, _, mantissa = type_id.get_fields()
        return FLOATS[size, exponent, mantissa, type_id.get_ebias()]
    return ("i" if type_id.get_sign() == h5py.h5t.SGN_2 else "u") + str(8 * size)


def read(path):
    """[(name, dtype, shape, offset, bytes, crc64)], metadata, attributes of the group, by h5py."""
    raw = open(path, "rb").read()
    tensors = []
    with h5py.File(path, "r") as file:
        group = file["__slabload__"]
        attributes = {key: value for key, value in group.attrs.items()}
        metadata = json.loads(bytes(group["metadata"][:])) if "metadata" in group else {}

        def take(name, item):
            if not isinstance(item, h5py.Dataset) or name == "__slabload__/metadata":
                return
            if name.startswith("__slabload__/odd_names/"):
                odd = item.attrs.get("slabload_name")
                name = bytes(odd).decode() if not isinstance(odd, h5py.Empty) else ""
            offset = item.id.get_offset() if item.size else 0
            size = item.size * item.id.get_type().get_size()
            data = raw[offset:offset + size]
            check(int(item.attrs["slabload_crc64"]) == crc64(data), f"{path}: {name}: its bytes have another CRC")
            tensors.append((name, dtype_of(item.id.get_type()), item.shape, offset, size, crc64(data)))
        file.visititems(take)
    return tensors, metadata, attributes


def index_checksum(tensors, metadata):
    number = lambda value: struct.pack("<Q", value)
    text = lambda value: number(len(value)) + value
    out = number(len(tensors))
    for name, dtype, shape, offset, size, crc in sorted(tensors, key=lambda tensor: tensor[0].encode()):
        out += text(name.encode()) + number(0) + text(dtype.encode()) + number(0)
        out += number(len(shape)) + b"".join(map(number, shape))
        out += text(b"contiguous" if size else b"never written") + number(offset) + number(size)
        out += number(0) + number(0) + text(b"") + number(1) + number(crc)
    out += number(len(metadata))
    for key, value in sorted(metadata.items(), key=lambda item: item[0].encode()):
        out += text(key.encode()) + text(value.encode())
    return crc64(out)


# ---- a file of today -------------------------------------------------------------------------------------------------------
rows = [(f"{dtype}.{i}", dtype, shape) for dtype in DTYPES for i, shape in enumerate([(5, 7), (), (3, 0, 4)])]
rows += [("group/below", "f32", (3,)), ("large", "bf16", (300, 211))]
odd = ["", "a//b", "..", "group"]
tensors = {name: (DTYPES[dtype][0], synthetic(9, name, dtype, shape)) for name, dtype, shape in rows}
tensors |= {name: ("I16", np.arange(4, dtype="<u2")) for name in odd}
write_safetensors("in.safetensors", tensors, {"format": "pt", "by": "\u00e4 \"test\"\n"})
Run(2, ["import", "in.safetensors", "--out", "new.h5"])
found, metadata, attributes = read("new.h5")
check((int(attributes["format_major"]), int(attributes["format_minor"]), int(attributes["complete"])) == (1, 1, 1), f"{attributes}")
check({name: (DTYPES[dtype][0], shape) for name, dtype, shape, *_ in found} ==
      {name: (kind, values.shape) for name, (kind, values) in tensors.items()}, "h5py finds other tensors")
check(metadata == {"format": "pt", "by": "\u00e4 \"test\"\n"}, f"{metadata}")
check(int(attributes["index_crc64"]) == index_checksum(found, metadata), "the checksum of the index is not the one of format.md")
check(all(offset % 4096 == 0 for _, _, _, offset, size, _ in found if size >= 65536), "a large tensor is not aligned")
check(json.loads(Run(0, ["inspect", "new.h5", "--json"]).out)["index_verified"] is True, "inspect does not say that the index is proved")
print(f"{len(found)} tensors by h5py and {crc64.__name__}, the index's checksum as documented")

# ---- files of other versions -------------------------------------------------------------------------------------------------


def changed(name, change):
    shutil.copy("new.h5", name)
    with h5py.File(name, "r+") as file:
        change(file["__slabload__"], file)
    return name


def attribute(name, value):
    return lambda group, _: group.attrs.modify(name, np.uint64(value))


newer = changed("newer.h5", lambda group, file: (group.attrs.modify("format_minor", np.uint64(7)),
                                                 group.attrs.create("shiny", "new"), group.create_dataset("more", data=[1, 2])))
check(len(json.loads(Run(0, ["inspect", newer, "--json", "--tensors"]).out)["tensors"]) == len(tensors), "a newer minor version")
run = Run(2, ["load", changed("major.h5", attribute("format_major", 2))], status=3)
check("slabload format 2, this program reads format 1" in run.err, run.err)
run = Run(2, ["load", changed("half.h5", attribute("complete", 0))], status=3)
check("never finished" in run.err, run.err)
noted = changed("noted.h5", lambda group, file: file.create_dataset("notes", data="seen"))
check(json.loads(Run(0, ["inspect", noted, "--json"]).out)["index_verified"] is True, "a note makes the file another")
added = changed("added.h5", lambda group, file: file.create_dataset("extra", data=np.zeros(3, "f4")))
for verb in (["load", added], ["verify", added]):
    run = Run(2, verb, status=1)
    check("not those that were written" in run.err and "--trust-index" in run.err, run.err)
run = Run(2, ["load", added, "--trust-index", "--report", "report.json"])
report = json.loads((work / "report.json").read_text())
check((report["tensors_verified"], report["tensors_unverified"]) == (len(tensors), 1), f"{report['tensors_verified']}")
Run(2, ["import", added, "--trust-index", "--out", "again.h5"])
check(json.loads(Run(0, ["inspect", "again.h5", "--json"]).out)["index_verified"] is True, "import does not make the index right")
Run(2, ["verify", "again.h5"])

# ---- files kept for ever --------------------------------------------------------------------------------------------------
for name, proved in (("format_1_0.h5", None), ("format_1_1.h5", True)):
    path = TOP / "tests/data" / name
    found, metadata, attributes = read(path)
    check(len(found) == 17 + 2 and metadata == {"format": "pt"}, f"{name}: {len(found)} tensors, {metadata}")
    check(json.loads(Run(0, ["inspect", path, "--json"]).out)["index_verified"] is proved, f"{name}: inspect")
    (work / name).mkdir()
    Run(2, ["load", path, "--stage-out", work / name, "--layout", "replicate", "--verify", "shards"])
    staged, _ = read_safetensors(work / name / "rank-00001.safetensors")
    want, _ = read_safetensors(TOP / "tests/data/format.safetensors")
    check({key: value[:2] for key, value in staged.items()} == {key: value[:2] for key, value in want.items()}, f"{name}: tensors")
    check(all(np.array_equal(staged[key][2], want[key][2]) for key in want), f"{name}: values")
    Run(2, ["verify", path])
print("files of format 1.0 and 1.1 load as they were written")
