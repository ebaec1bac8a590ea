"""runtime.gguf reads what PyPI gguf writes, as PyPI gguf reads it."""

from __future__ import annotations

import subprocess
import sys
import time

import gguf
import numpy as np
import pytest

from runtime.gguf import GGUFError, StringArray, dequantize, open_gguf
from tests.kernels.oracles.formats import dequantise
from tests.models import blocks, raw
from tests.models.build import make_model
from tests.models.vocab import large_vocabulary

TYPE_NAMES = {gguf.GGUFValueType[k]: v for k, v in {"UINT8": "u8", "INT8": "i8", "UINT16": "u16", "INT16": "i16",
              "UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "BOOL": "bool", "STRING": "string", "ARRAY": "array",
              "UINT64": "u64", "INT64": "i64", "FLOAT64": "f64"}.items()}  # fmt: skip


def write(path, content: bytes):
    path.write_bytes(content)
    return path


def assert_same_as_gguf_reader(path) -> None:
    """Every metadata value, type and tensor equals what gguf.GGUFReader reports."""
    theirs = gguf.GGUFReader(path)
    with open_gguf(path) as ours:
        fields = {name: f for name, f in theirs.fields.items() if not name.startswith("GGUF.")}
        assert list(ours.metadata) == list(fields)
        for name, field in fields.items():
            want, got = field.contents(), ours.metadata[name]
            assert ours.types[name] == (
                TYPE_NAMES[field.types[0]],
                TYPE_NAMES[field.types[1]] if field.types[1:] else None,
            )
            assert list(got) == want if isinstance(want, list) else got == want, name
        assert list(ours.tensors) == [t.name for t in theirs.tensors]
        for tensor in theirs.tensors:
            info = ours.tensors[tensor.name]
            assert info.shape == tuple(int(n) for n in reversed(tensor.shape))
            assert (info.type.id, info.offset, info.nbytes) == (tensor.tensor_type, tensor.data_offset, tensor.n_bytes)
            assert info.type_name == tensor.tensor_type.name
            assert np.array_equal(ours.data(tensor.name), tensor.data.view(np.uint8).reshape(-1))


@pytest.mark.parametrize("kind", [kind for kind in blocks.TYPES if kind in gguf.GGMLQuantizationType.__members__])
def test_generated_models_read_as_gguf_reader_reads_them(tmp_path, kind):
    path = make_model(tmp_path / "m.gguf", d=256, ff=256, head_dim=64, types=kind, tokenizer="byte", seed=5)
    assert_same_as_gguf_reader(path)


def test_a_type_that_gguf_does_not_know(tmp_path):
    with open_gguf(make_model(tmp_path / "m.gguf", types={"default": "F32", "ffn_up": "Q2_0"}, seed=5)) as f:
        info = f.tensors["blk.0.ffn_up.weight"]
        assert (info.type.id, info.type_name, info.shape, info.nbytes) == (42, "Q2_0", (128, 64), 128 * 18)
        assert sum(t.type_name == "Q2_0" for t in f.tensors.values()) == 2 and f.tensors["blk.0.ffn_down.weight"].type_name == "F32"


def test_every_value_type(tmp_path):
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "qwen2")
    V = gguf.GGUFValueType
    scalars = {V.UINT8: 200, V.INT8: -3, V.UINT16: 60000, V.INT16: -30000, V.UINT32: 4_000_000_000, V.INT32: -5,
               V.FLOAT32: 0.5, V.BOOL: True, V.STRING: "snow \u2603 \U0001f600", V.UINT64: 2**63 + 1, V.INT64: -(2**62),
               V.FLOAT64: 0.1}  # fmt: skip
    for kind, value in scalars.items():
        writer.add_key_value(f"scalar.{kind.name}", value, kind)
        items = [value] * 3 if kind != V.BOOL else [True, False, True]
        writer.add_key_value(f"array.{kind.name}", items, V.ARRAY, sub_type=kind)
    for name, shape in (("one", (7,)), ("two", (3, 5)), ("three", (2, 3, 4)), ("four", (2, 1, 3, 4))):
        writer.add_tensor(name, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    writer.add_tensor("ints", np.arange(6, dtype=np.int32).reshape(2, 3))
    writer.add_tensor("doubles", np.arange(6, dtype=np.float64).reshape(2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert_same_as_gguf_reader(tmp_path / "m.gguf")
    with open_gguf(tmp_path / "m.gguf") as f:
        assert f.tensors["four"].shape == (2, 1, 3, 4)
        assert f.metadata["array.BOOL"].dtype == np.bool_
        for name in ("ints", "doubles"):
            info = f.tensors[name]
            assert dequantize(info.type_name, f.data(name), info.shape).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_version_2_alignment_and_gaps(tmp_path):
    entries = [raw.ARCH, raw.entry("general.alignment", "u32", 128)]
    infos = [raw.info("late", (4,), offset=512), raw.info("early", (4,), offset=128)]
    path = write(tmp_path / "m.gguf", raw.file(entries, infos, 528, version=2, alignment=128))
    with open_gguf(path) as f:
        assert (f.version, f.alignment) == (2, 128)
        assert [t.offset % 128 for t in f.tensors.values()] == [0, 0]
        assert f.tensors["late"].offset - f.tensors["early"].offset == 384
        assert f.tensors["late"].offset + 16 == f.size


def test_string_arrays_are_lazy_sequences(tmp_path):
    items = [b"a", b"", "\u00e9\u0120".encode(), b"\xff\xfe", b"end"]
    path = write(tmp_path / "m.gguf", raw.file([raw.ARCH, raw.array("s", "string", items)]))
    with open_gguf(path) as f:
        s = f.metadata["s"]
        assert isinstance(s, StringArray) and len(s) == 5 and s.bytes_list() == items
        assert s[2] == "\u00e9\u0120" and s[-1] == "end" and s[1:3] == ["", "\u00e9\u0120"]
        assert list(s) == s.str_list() == [x.decode("utf-8", "surrogateescape") for x in items]
        assert s.bytes_at(3) == b"\xff\xfe" and "end" in s and s == s.str_list() and s != ["a"]
        with pytest.raises(IndexError):
            s[5]


def test_getters_check_types(tmp_path):
    entries = [raw.ARCH, raw.entry("n", "u32", 3), raw.entry("x", "f32", 0.5), raw.array("a", "i32", [1, 2, 3]),
               raw.array("x.a", "f32", [1.0, 2.0])]  # fmt: skip
    with open_gguf(write(tmp_path / "m.gguf", raw.file(entries))) as f:
        assert f.arch == "qwen3" and f.require("n", "u32") == f.require("n", int) == f.get("n", type="u32") == 3
        assert f.get("missing", 7, "u32") == 7 and f.require("a", "i32[]").tolist() == [1, 2, 3]
        assert f.require("a", list) is f.require("a", "array")
        assert f.per_layer("n", 2) == [3, 3] and f.per_layer("a", 2, "u32") == [1, 2]
        assert f.per_layer("missing", 2, default=9) == [9, 9] and f.per_layer("x.a", 2, float) == [1.0, 2.0]
        assert all(type(v) is int for v in f.per_layer("a", 3))
        for call, message in ((lambda: f.require("general.architecture", "u32"), "expected u32, file has string"),
                              (lambda: f.require("n", "u64"), "expected u64, file has u32"),
                              (lambda: f.require("a", "u32[]"), r"expected u32\[\], file has i32\[\]"),
                              (lambda: f.get("x", 0, int), "expected int, file has f32"),
                              (lambda: f.require("missing", "u32"), "missing: is missing"),
                              (lambda: f.per_layer("a", 4), "has 3 elements for 4 layers"),
                              (lambda: f.per_layer("x.a", 2), r"expected int, file has f32\[\]"),
                              (lambda: f.per_layer("missing", 2), "is missing"),
                              (lambda: f.tensor("nope"), "tensor 'nope': is missing")):  # fmt: skip
            with pytest.raises(GGUFError, match=message):
                call()


def test_data_is_a_read_only_view_that_outlives_the_file(tmp_path):
    f = open_gguf(make_model(tmp_path / "m.gguf"))
    data = f.data("output_norm.weight")
    f.close()
    assert not data.flags.writeable and np.isfinite(data.view(np.float32)).all()
    with pytest.raises(GGUFError, match="closed"):
        f.data("output_norm.weight")


@pytest.mark.parametrize("kind", blocks.TYPES)
def test_dequantize(kind):
    rng = np.random.default_rng(2)
    stored = blocks.weight(kind, (4, 512), 1.0, rng)
    want = (
        stored.astype(np.float32)
        if kind in ("F32", "F16")
        else dequantise(kind, stored, 512)
    )
    got = dequantize(kind, np.ascontiguousarray(stored).view(np.uint8).reshape(-1), (4, 512))
    assert got.dtype == np.float32 and np.array_equal(got, want) and got.std() > 0.5


@pytest.mark.parametrize("kind, nbytes, shape, message", [
    ("Q9_X", 32, (8,), "no GGUF tensor type"), ("Q8_1", 36, (32,), "no decoder"), ("F32", 31, (8,), "do not make shape"),
    ("Q4_K", 144, (144,), "do not make shape")])  # fmt: skip
def test_dequantize_refuses(kind, nbytes, shape, message):
    with pytest.raises(GGUFError, match=message):
        dequantize(kind, np.zeros(nbytes, np.uint8), shape)


def full_size_file(path):
    """A header of Qwen's real size: 151,936 tokens, their types and 151,570 merges."""
    words = large_vocabulary(151_936)
    entries = [raw.ARCH, raw.array("tokenizer.ggml.tokens", "string", words.tokens),
               raw.array("tokenizer.ggml.token_type", "i32", words.token_types),
               raw.array("tokenizer.ggml.merges", "string", words.merges)]  # fmt: skip
    return write(path, raw.file(entries, [raw.info("t", (32,))], 128)), words


def test_a_full_vocabulary_opens_within_a_second(tmp_path):
    path, words = full_size_file(tmp_path / "m.gguf")
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        f = open_gguf(path)
        times.append(time.perf_counter() - begin)
    assert min(times) <= 1.0
    begin = time.perf_counter()
    assert f.metadata["tokenizer.ggml.tokens"].str_list() == words.tokens
    assert f.metadata["tokenizer.ggml.merges"].str_list() == words.merges
    assert time.perf_counter() - begin <= 1.5


@pytest.mark.full
def test_a_full_vocabulary_reads_as_gguf_reader_reads_it(tmp_path):
    path, _ = full_size_file(tmp_path / "m.gguf")
    begin = time.perf_counter()
    theirs = gguf.GGUFReader(path)
    slow = time.perf_counter() - begin
    begin = time.perf_counter()
    ours = open_gguf(path)
    assert (time.perf_counter() - begin) * 4 < slow
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"):
        assert list(ours.metadata[key]) == theirs.fields[key].contents()


def test_importing_the_reader_imports_no_text_or_server_package():
    code = "import sys, runtime.gguf; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = ("tokenizers", "transformers", "jinja2", "starlette", "uvicorn", "rich", "vulkan", "regex", "sentencepiece")
    assert "'numpy'" in loaded and not [name for name in heavy if f"'{name}'" in loaded]
