"""Writes chunks.json: chunks as the HDF5 library stores them behind its filters, and what they hold (h5py, any version).

A case is {"filters": [...], "element": bytes of an element, "stored": hex, "mask": filters that were left out, "plain": hex}.
The last case is no chunk of its size: 1 MiB of zeros in the place of 4096 bytes.
"""
import json
import zlib
from pathlib import Path

import h5py
import numpy as np

random = np.random.default_rng(5)
FILTERS = {"deflate": h5py.h5z.FILTER_DEFLATE, "shuffle": h5py.h5z.FILTER_SHUFFLE, "fletcher32": h5py.h5z.FILTER_FLETCHER32}
cases = []
pipelines = [["deflate"], ["shuffle"], ["fletcher32"], ["shuffle", "deflate"], ["deflate", "shuffle"], ["shuffle", "deflate", "fletcher32"],
             ["fletcher32", "shuffle", "deflate"], ["fletcher32", "deflate"], ["deflate", "fletcher32"], ["shuffle", "fletcher32"]]
with h5py.File("chunks", "w", driver="core", backing_store=False) as file:
    for element in (1, 2, 3, 4, 8):
        for number, pipeline in enumerate(pipelines):
            shape = (int(random.integers(1, 9)), int(random.integers(1, 12)))
            plain = random.integers(0, 4 if number % 2 else 256, (shape[0], shape[1] * element), dtype=np.uint8)
            plain = plain.reshape(-1).view(f"V{element}" if element == 3 else f"<u{element}").reshape(shape)
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk(shape)
            for name in pipeline:
                properties.set_filter(FILTERS[name], 0, (6,) if name == "deflate" else ())
            name = f"{element} {number}".encode()
            dataset = h5py.h5d.create(file.id, name, h5py.h5t.py_create(plain.dtype), h5py.h5s.create_simple(shape), properties)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, plain)
            file.flush()
            mask, stored = dataset.read_direct_chunk((0, 0))
            cases.append({"filters": pipeline, "element": element, "stored": bytes(stored).hex(), "mask": mask, "plain": plain.tobytes().hex()})
cases.append({"filters": ["deflate"], "element": 1, "stored": zlib.compress(bytes(1 << 20), 9).hex(), "mask": 0, "plain": "00" * 4096})
Path(__file__).with_name("chunks.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
