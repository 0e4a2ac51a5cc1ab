"""Tensors of 2 GiB and one byte on either side of it, in sparse files: a mark in each of the places where a count or an
offset could go wrong must arrive, through every way of reading. The right checksum does not come from the program that is
checked: a CRC is linear, so that of a tensor of zeros with marks follows from the marks by arithmetic."""
import json
import os

import h5py
import numpy as np

from lib import MASK, Run, check, work_folder

work = work_folder()
GIB2 = 1 << 31
SIZES = {"below": GIB2 - 1, "equal": GIB2, "above": GIB2 + 1}
POLYNOMIAL = 0xC96C5795D7870F42  # CRC-64/XZ, bits reversed


def times(a, b):
    """a * b modulo the polynomial; the bit 1 << 63 is the power 0."""
    out = 0
    for bit in range(63, -1, -1):
        if b >> bit & 1:
            out ^= a
        a = (a >> 1) ^ (POLYNOMIAL if a & 1 else 0)
    return out


def power_of_256(count):
    """x to the power of 8 * count."""
    out, factor = 1 << 63, 1 << 55
    while count:
        if count & 1:
            out = times(out, factor)
        factor = times(factor, factor)
        count >>= 1
    return out


def crc_byte(byte):
    """The register after one byte, started at zero."""
    register = byte
    for _ in range(8):
        register = (register >> 1) ^ (POLYNOMIAL if register & 1 else 0)
    return register


def crc64(size, marks):
    """CRC-64/XZ of `size` zero bytes with marks: {offset: byte}."""
    register = times(MASK, power_of_256(size))
    for at, byte in marks.items():
        register ^= times(crc_byte(byte), power_of_256(size - 1 - at))
    return register ^ MASK


def zlib_like(data):
    register = MASK
    for byte in data:
        register = crc_byte((register ^ byte) & 0xFF) ^ (register >> 8)
    return register ^ MASK


check(zlib_like(b"123456789") == 0x995DC9BBDF1939FA, "the published check value of CRC-64/XZ")
check(crc64(9, {i: b for i, b in enumerate(b"123456789")}) == 0x995DC9BBDF1939FA, "the arithmetic on marks is wrong")

right = {}
for name, size in SIZES.items():
    # Both ends, both sides of 2^30 and 2^31, and of the middle, where two ranks meet.
    places = {0, 1, size // 2 - 1, size // 2, size // 2 + 1, GIB2 // 2 - 1, GIB2 // 2, size - 2, size - 1, GIB2 - 2, GIB2 - 1, GIB2}
    marks = {at: 1 + i * 19 % 255 for i, at in enumerate(sorted(places)) if at < size}
    right[name] = crc64(size, marks)
    with h5py.File(f"{name}.h5", "w") as file:
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        create.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        dataset = h5py.h5d.create(file.id, b"t", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((size,)), create)
        file.flush()
        offset = dataset.get_offset()
    with open(f"{name}.h5", "r+b") as file:
        for at, byte in marks.items():
            file.seek(offset + at)
            file.write(bytes([byte]))
    stored = os.stat(f"{name}.h5").st_blocks * 512
    check(stored < 1 << 20, f"{name}.h5 is not sparse: {stored} bytes")


def set_checksum(path, value):
    with h5py.File(path, "r+") as file:
        file["t"].attrs["slabload_crc64"] = np.uint64(value)


for name, size in SIZES.items():
    set_checksum(f"{name}.h5", right[name])


def load(name, ranks, io, layout):
    run = Run(ranks, ["load", f"{name}.h5", "--io", io, "--layout", layout, "--verify", "shards", "--report", "report.json",
                      "--trust-index"])  # a checksum of ours in a file that is not
    report = json.loads((work / "report.json").read_text())
    check((report["tensors_verified"], report["wrong"]) == (1, 0), f"{name}, {io}, {ranks} ranks: {run.out}")
    check(report["read_bytes"] == report["selected_bytes"] == SIZES[name], f"{name}, {io}: {report['read_bytes']} bytes read")
    print(f"{SIZES[name]} bytes, {io}, {layout} on {ranks} ranks: CRC-64 as computed, {report['read_requests']} requests, "
          f"{report['fill_bytes']} bytes filled, {report['total_s']:.2f} s")


for name, ranks, io, layout in (("below", 2, "independent", "fsdp2"), ("equal", 2, "direct", "fsdp2"),
                                ("above", 1, "independent", "fsdp2"), ("above", 2, "collective", "fsdp2"),
                                ("above", 2, "direct", "replicate")):
    load(name, ranks, io, layout)

# One mark less, and it must show.
at = GIB2
with h5py.File("above.h5", "r") as file:
    offset = file["t"].id.get_offset()
with open("above.h5", "r+b") as file:
    file.seek(offset + at)
    file.write(b"\0")
run = Run(2, ["verify", "above.h5", "--trust-index"], status=1)
check("tensor" in run.err and f"{right['above']:016x}" in run.out, f"verify: {run.out}{run.err}")
