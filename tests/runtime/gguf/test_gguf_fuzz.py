"""Mutated headers: no crash, no hang, no exception but GGUFError, no allocation above the file's size."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc

import pytest

from runtime.gguf import GGUFError, open_gguf
from tests.models import raw
from tests.models.vocab import byte_vocabulary

INTERESTING = (0, 1, 2, 7, 8, 9, 13, 31, 63, 64, 255, 2**15, 2**16, 2**30, 2**30 + 1, 2**31 - 1, 2**31, 2**32 - 1,
               2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 32, 2**64 - 1)  # fmt: skip
SPARE = 1 << 18  # tensor data: what Python objects of a small header may weigh is far below the size of the file


def seed_file() -> tuple[bytes, int]:
    """A valid file that has every kind of value, and the length of its header."""
    words = byte_vocabulary(300)
    entries = [raw.ARCH, raw.entry("general.alignment", "u32", 64)]
    entries += [raw.entry(f"s.{kind}", kind, 1) for kind in raw.CODES] + [raw.entry("s.text", "string", "some text")]
    entries += [raw.array(f"a.{kind}", kind, [1] * 9) for kind in raw.CODES]
    entries += [raw.array("tokens", "string", words.tokens), raw.array("merges", "string", words.merges)]
    infos, at = [], 0
    for i, (type_id, elements, size) in enumerate(
        ((0, 1, 4), (1, 1, 2), (8, 32, 34), (2, 32, 18), (12, 256, 144), (14, 256, 210))
    ):
        dims = (512, 2, 3)[: 1 + i % 3]
        infos.append(raw.info(f"blk.{i}.weight", dims, type_id, at))
        count = 512 * (2 if len(dims) > 1 else 1) * (3 if len(dims) > 2 else 1)
        at += -(-(count // elements * size) // 64) * 64
    whole = raw.file(entries, infos, max(at, SPARE), alignment=64)
    return whole, whole.rindex(b"blk.5.weight") + 12 + 44


def mutate(header: bytes, rng: random.Random) -> bytes:
    """One to four random edits: flips, interesting integers, copies, insertions, deletions, a cut."""
    data = bytearray(header)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(4, len(data)), rng.randrange(7)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind in (2, 3):
            size = 4 if kind == 2 else 8
            data[at : at + size] = struct.pack("<Q", rng.choice(INTERESTING))[:size]
        elif kind == 4:
            source = rng.randrange(len(data))
            chunk = data[source : source + rng.randint(1, 64)]
            data[at : at + len(chunk)] = chunk
        elif kind == 5:
            data[at:at] = rng.randbytes(rng.randint(1, 16))
        else:
            del data[at : at + rng.randint(1, 16)]
    return bytes(data)


def read_all(path) -> int:
    """Open a file and touch what it holds; the number of tensors."""
    with open_gguf(path) as f:
        for value in f.metadata.values():
            if hasattr(value, "__len__") and len(value):
                value[0], value[-1]
        for name in f.tensors:
            assert len(f.data(name)) == f.tensors[name].nbytes
        return len(f.tensors)


def fuzz(path, seed: int, count: int) -> tuple[int, int]:
    """(accepted, refused) of `count` mutated files. Every third is cut after its header."""
    whole, n_header = seed_file()
    rng, accepted = random.Random(seed), 0
    path.write_bytes(whole)
    assert read_all(path) == 6
    with open(path, "r+b", buffering=0) as file:
        tracemalloc.start()
        try:
            for i in range(count):
                header = mutate(whole[:n_header], rng)
                size = len(header) if i % 3 == 2 else len(whole)
                file.truncate(size)
                file.seek(0)
                file.write(header)
                accepted += one(path, size)
        finally:
            tracemalloc.stop()
    return accepted, count - accepted


def one(path, size: int) -> bool:
    """Whether the file is accepted; anything but a GGUFError, a slow answer or a large allocation fails the test."""
    tracemalloc.reset_peak()
    before, begin, accepted = tracemalloc.get_traced_memory()[0], time.perf_counter(), True
    try:
        read_all(path)
    except GGUFError as error:
        accepted = False
        assert str(error).isprintable() and len(str(error)) < 1000
    peak = tracemalloc.get_traced_memory()[1] - before
    assert time.perf_counter() - begin < 2.0
    assert peak <= max(size, 1 << 17), f"{peak} bytes for a file of {size}"
    return accepted


def test_mutated_headers(tmp_path):
    accepted, refused = fuzz(tmp_path / "f.gguf", 1, 2000)
    assert accepted > 50 and refused > 500


@pytest.mark.full
def test_ten_thousand_mutated_headers(tmp_path):
    accepted, refused = fuzz(tmp_path / "f.gguf", 2, 10_000)
    assert accepted > 250 and refused > 2500
