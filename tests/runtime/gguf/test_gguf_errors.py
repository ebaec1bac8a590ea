"""Every malformed file is refused by one line that names the file, the field, the reason and a remedy."""

from __future__ import annotations

import os
import re
import struct
import tracemalloc

import gguf
import numpy as np
import pytest

from runtime.gguf import GGUFError, open_gguf
from tests.models import raw
from tests.models.build import make_model

U64_MAX = (1 << 64) - 1
BIG = 1 << 40
KEY = raw.string("k")

CASES = {
    "magic": (b"PK\x03\x04 a zip file", "magic.*begins with b'PK"),
    "text": (b"hello\n", "magic"),
    "short": (b"GG", "magic"),
    "header cut": (b"GGUF\x03\0\0\0\x01", "tensor count: needs 8 bytes"),
    "version 0": (raw.file(version=0), "version: 0 is not supported"),
    "version 1": (raw.file(version=1), "version: 1 is not supported"),
    "version 4": (raw.file(version=4), "version: 4 is not supported"),
    "big endian": (raw.file(version=3 << 24), "version.*big-endian.*little-endian"),
    "tensor count": (raw.file([raw.ARCH], n_tensors=BIG), "header: .* over the limits"),
    "tensor count for the file": (raw.file([raw.ARCH], n_tensors=1000), "header: .*do not fit"),
    "metadata count": (raw.file([raw.ARCH], n_entries=U64_MAX), "header: .* over the limits"),
    "metadata count for the file": (raw.file([raw.ARCH], n_entries=1000), "header: .*do not fit"),
    "one entry too many": (raw.file([raw.ARCH], [raw.info("t", (8,))], 32, n_entries=2), "tensor 0 name: ''"),
    "key length": (raw.file([raw.string("k" * 20, U64_MAX)]), "metadata key 0: a string of"),
    "key length for the file": (raw.file([raw.string("k" * 20, 1 << 20)]), "metadata key 0: a string of 1048576 bytes"),
    "empty key": (raw.file([raw.entry("", "u64", 1)]), "metadata key 0: '' is empty"),
    "duplicate key": (raw.file([raw.ARCH, raw.ARCH]), "metadata key 1: 'general.architecture' is .*duplicate"),
    "key not UTF-8": (raw.file([raw.entry(b"\xff\xfe\xfd", "u64", 1)]), "metadata key 0: .* is not UTF-8"),
    "key with newline": (raw.file([raw.entry("a\nb", "u64", 1, type_id=99)]), r"metadata 'a\\nb': value type 99"),
    "value type": (raw.file([raw.entry("k", "u32", 1, type_id=13)]), "metadata 'k': value type 13 is unknown"),
    "value cut": (raw.file([KEY + struct.pack("<IH", 10, 0)]), "metadata 'k': needs 8 bytes"),
    "string length": (raw.file([KEY + struct.pack("<I", 8) + raw.string("v", U64_MAX)]), "metadata 'k': a string of"),
    "string cut": (raw.file([KEY + struct.pack("<I", 8) + raw.string("v", 1 << 20)]), "metadata 'k': a string of 1048576 bytes"),
    "string passes the end": (raw.file([KEY + struct.pack("<I", 8) + raw.string("v", 9)]), "metadata 'k': needs 9 bytes"),
    "value not UTF-8": (raw.file([raw.entry("k", "string", b"\xc3(")]), "metadata 'k': .* is not UTF-8"),
    "bool": (raw.file([raw.entry("k", "bool", 2)]), "metadata 'k': a bool of 2"),
    "bool array": (raw.file([raw.array("k", "bool", [0, 1, 7])]), "metadata 'k': a bool of 7"),
    "array count": (raw.file([raw.array("k", "u8", [1], count=U64_MAX)]), "metadata 'k': an array of"),
    "array count for the file": (raw.file([raw.array("k", "f64", [1], count=1 << 29)]), "metadata 'k': needs 4294967296"),
    "array element type": (raw.file([raw.array("k", "u8", [1], element_id=77)]), "array element type 77 is unknown"),
    "nested array": (raw.file([raw.array("k", "u8", [1] * 40, element_id=9)]), "array of arrays"),
    "string array count": (raw.file([raw.array("k", "string", ["a"], count=1 << 29)]), "metadata 'k': needs 4294967296"),
    "string array short": (raw.file([raw.array("k", "string", ["a" * 40], count=4)]), "string 1 of 4 passes the end"),
    "string in array": (raw.file([raw.array("k", "string", ["a", "b"])[:-9] + raw.string("b", BIG)]), "string 1 of 2"),
    "last string in array": (raw.file([raw.array("k", "string", ["a", "b"])[:-1]]), "string 1 of 2 passes the end"),
    "alignment type": (raw.file([raw.entry("general.alignment", "u64", 32)]), "general.alignment: expected u32, file has u64"),
    "alignment 0": (raw.file([raw.entry("general.alignment", "u32", 0)]), "general.alignment: 0 is not a power of two"),
    "alignment 48": (raw.file([raw.entry("general.alignment", "u32", 48)]), "general.alignment: 48 is not a power"),
    "split": (raw.file([raw.ARCH, raw.entry("split.count", "u16", 3)]), "split.count: .* one of the 3 parts.*merge"),
    "split type": (raw.file([raw.ARCH, raw.entry("split.count", "string", "3")]), "split.count: expected u16"),
    "tensor name length": (raw.file([], [raw.info("t" * 64, (8,))], 32), "tensor 0 name: a string of 64 bytes.*limit of 63"),
    "tensor name empty": (raw.file([], [raw.info("", (8,)), raw.info("t", (8,))], 64), "tensor 0 name: '' is empty"),
    "tensor name twice": (raw.file([], [raw.info("t", (8,)), raw.info("t", (8,), offset=32)], 64), "tensor 1 name: 't'"),
    "tensor name not UTF-8": (raw.file([], [raw.info(b"\xff", (8,))], 32), "tensor 0 name: .* is not UTF-8"),
    "dimensions": (raw.file([], [raw.info("t", (1, 1, 1, 1, 1))], 32), "tensor 't': 5 dimensions"),
    "dimension count": (raw.file([], [raw.info("t", (8,), n_dims=1 << 31)], 32), "tensor 't': 2147483648 dimensions"),
    "dimension 0": (raw.file([], [raw.info("t", (8, 0))], 32), r"tensor 't': dimensions \(8, 0\) are empty"),
    "dimension overflow": (raw.file([], [raw.info("t", (1 << 62, 4))], 32), "tensor 't': dimensions .* overflow"),
    "product wraps": (raw.file([], [raw.info("t", (1 << 32, 1 << 32))], 32), "tensor 't': dimensions .* overflow"),
    "byte count": (raw.file([], [raw.info("t", (1 << 62,))], 32), "tensor 't': its data ends at byte .*cut short"),
    "type id": (raw.file([], [raw.info("blk.0.x", (256,), 4)], 32), "tensor 'blk.0.x': tensor type id 4 is unknown"),
    "type id 43": (raw.file([], [raw.info("t", (256,), 43)], 512), "tensor 't': tensor type id 43 is unknown"),
    "block": (raw.file([], [raw.info("t", (128, 2), 12)], 512), "tensor 't': rows of 128 .* 256 elements of a Q4_K block"),
    "offset alignment": (raw.file([], [raw.info("t", (8,), offset=16)], 64), "tensor 't': data offset 16 is not a multiple"),
    "offset outside": (raw.file([], [raw.info("t", (8,), offset=64)], 64), "tensor 't': its data ends at byte .*cut short"),
    "offset wraps": (raw.file([], [raw.info("t", (8,), offset=U64_MAX - 31)], 64), "tensor 't': its data ends at byte"),
    "overlap": (raw.file([], [raw.info("a", (16,)), raw.info("b", (8,), offset=32)], 64), "tensor 'b': overlaps tensor 'a'"),
    "data cut": (raw.file([], [raw.info("t", (9,))], 35), "tensor 't': its data ends at byte .*download"),
    "no data": (raw.file([], [raw.info("t", (8,))]), "tensor 't': its data ends at byte"),
}  # fmt: skip


def refusal(path) -> str:
    """The error of opening a path: one printable line of the form 'path: field: reason; remedy'."""
    with pytest.raises(GGUFError) as caught:
        open_gguf(path)
    line = str(caught.value)
    assert line.isprintable() and line.startswith(f"{path}: ") and "; " in line and len(line) < 400 + len(str(path))
    assert caught.value.__cause__ is None
    return line


@pytest.mark.parametrize("name", CASES)
def test_malformed_file_is_refused(tmp_path, name):
    content, message = CASES[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        line = refusal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert re.search(message, line), line
    assert peak < 1 << 20


def test_paths_that_are_no_files(tmp_path):
    empty, pipe = tmp_path / "empty", tmp_path / "pipe"
    empty.touch()
    os.mkfifo(pipe)
    assert "No such file" in refusal(tmp_path / "missing.gguf")
    assert "is empty" in refusal(empty)
    assert "not a regular file" in refusal(pipe)
    assert "not a regular file" in refusal(tmp_path)
    with pytest.raises(GGUFError, match="cannot be read"):
        open_gguf("nul\0byte")


def test_a_real_file_cut_anywhere_is_refused(tmp_path):
    whole = make_model(
        tmp_path / "m.gguf", n_layer=1, d=32, ff=32, heads=2, kv_heads=1, vocab=300, tokenizer="byte"
    ).read_bytes()
    path = tmp_path / "cut.gguf"
    cuts = sorted({0, 1, 4, 8, 12, 20, 24, 25, len(whole) - 1, *range(30, len(whole), len(whole) // 150)})
    for cut in cuts:
        path.write_bytes(whole[:cut])
        refusal(path)
    path.write_bytes(whole)
    open_gguf(path).close()


def test_parts_of_a_split_model_are_refused(tmp_path):
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "qwen3", split_max_tensors=1)
    for name in ("a", "b"):
        writer.add_tensor(name, np.ones(8, "f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = sorted(tmp_path.glob("m-*.gguf"))
    assert len(parts) == 2
    for part in parts:
        assert "split.count: this file is one of the 2 parts" in refusal(part)
