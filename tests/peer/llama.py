"""llama.cpp on the CPU, by ctypes: the peer that tokenizer and parity tests compare with. Never needed by the product.

The libraries are looked for in the directory named by LLAMA_LIB_DIR (libllama, libggml, libggml-cpu* of one build).
`available()` says whether they are there, and a test that needs them calls `require()`, which skips by name.

The parameter structs change from release to release, so they travel as oversized blobs. A field is found by a pattern
in the defaults that the library itself returns (two thread counts of 4, four enums of -1, a pair of type ids); a blob
that lacks the pattern is refused instead of guessed at.
"""

from __future__ import annotations

import collections
import ctypes as C
import functools
import os
from pathlib import Path

import numpy as np

_TYPE_IDS = {"f32": 0, "f16": 1, "q8_0": 8}
_BLOB_BYTES = 1024


class PeerError(Exception):
    """The peer refused something; the text ends with its own last log line."""


class _Blob(C.Structure):
    _fields_ = [("bytes", C.c_uint8 * _BLOB_BYTES)]


class _Batch(C.Structure):
    _fields_ = [
        ("n", C.c_int32),
        ("token", C.POINTER(C.c_int32)),
        ("embd", C.c_void_p),
        ("pos", C.POINTER(C.c_int32)),
        ("n_seq", C.POINTER(C.c_int32)),
        ("seq", C.POINTER(C.POINTER(C.c_int32))),
        ("logits", C.POINTER(C.c_int8)),
    ]


_LOG = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
_log_tail: collections.deque[str] = collections.deque(maxlen=200)


@_LOG
def _on_log(_level, text, _user):
    _log_tail.append(text.decode("utf-8", "replace"))


def library_dir() -> Path | None:
    """The directory of LLAMA_LIB_DIR when it holds a libllama, else None."""
    where = os.environ.get("LLAMA_LIB_DIR")
    return Path(where) if where and any(Path(where).glob("libllama.*so*")) else None


def available() -> bool:
    """True when the peer's libraries can be used."""
    return library_dir() is not None


def require() -> None:
    """Skip the calling test by name when the peer is absent."""
    import pytest

    if not available():
        pytest.skip("llama.cpp peer: LLAMA_LIB_DIR does not name a directory with libllama")


def _signature(fn, result, *args):
    fn.restype, fn.argtypes = result, list(args)


def _load_cpu_backend(where: Path, ggml) -> None:
    """Register the best CPU backend only: with no GPU backend registered every layer stays on the CPU."""
    best, best_score = None, 0
    for path in sorted(where.glob("libggml-cpu*.so")):
        lib = C.CDLL(str(path))
        score = lib.ggml_backend_score() if hasattr(lib, "ggml_backend_score") else 1
        if score > best_score:
            best, best_score = path, score
    if best is not None:
        _signature(ggml.ggml_backend_load, C.c_void_p, C.c_char_p)
        if not ggml.ggml_backend_load(str(best).encode()):
            raise PeerError(f"{best}: the CPU backend does not load")


@functools.cache
def _library(where: Path):
    llama = C.CDLL(str(min(where.glob("libllama.*so*"), key=lambda p: len(p.name))))
    ggml = C.CDLL(str(min(where.glob("libggml.*so*"), key=lambda p: len(p.name))))
    p, i32, size, boolean = C.c_void_p, C.c_int32, C.c_char_p, C.c_bool
    _signature(llama.llama_log_set, None, _LOG, p)
    _signature(llama.llama_model_default_params, _Blob)
    _signature(llama.llama_context_default_params, _Blob)
    _signature(llama.llama_model_load_from_file, p, C.c_char_p, _Blob)
    _signature(llama.llama_model_free, None, p)
    _signature(llama.llama_init_from_model, p, p, _Blob)
    _signature(llama.llama_free, None, p)
    _signature(llama.llama_model_get_vocab, p, p)
    _signature(llama.llama_vocab_n_tokens, i32, p)
    _signature(llama.llama_vocab_is_eog, boolean, p, i32)
    _signature(llama.llama_tokenize, i32, p, size, i32, C.POINTER(i32), i32, boolean, boolean)
    _signature(llama.llama_token_to_piece, i32, p, i32, size, i32, i32, boolean)
    _signature(llama.llama_detokenize, i32, p, C.POINTER(i32), i32, size, i32, boolean, boolean)
    _signature(llama.llama_batch_init, _Batch, i32, i32, i32)
    _signature(llama.llama_batch_free, None, _Batch)
    _signature(llama.llama_decode, i32, p, _Batch)
    _signature(llama.llama_get_logits_ith, C.POINTER(C.c_float), p, i32)
    _signature(llama.llama_get_memory, p, p)
    _signature(llama.llama_memory_clear, None, p, boolean)
    llama.llama_log_set(_on_log, None)
    llama.llama_backend_init()
    _load_cpu_backend(where, ggml)
    return llama


def _words(blob: _Blob) -> np.ndarray:
    return np.frombuffer(blob, np.int32)


def _find(words: np.ndarray, pattern: list[int], start: int, stop: int, what: str) -> int:
    for i in range(start, stop):
        if words[i : i + len(pattern)].tolist() == pattern:
            return i
    raise PeerError(
        f"llama.cpp: no {what} in this release's default parameters; use a release this wrapper knows (v0.5.0)"
    )


def _context_params(llama, n_ctx: int, n_batch: int, n_ubatch: int, threads: int, kv: str, flash: bool) -> _Blob:
    blob = llama.llama_context_default_params()
    words = _words(blob)
    if words[:3].tolist() != [512, 2048, 512]:
        raise PeerError("llama.cpp: n_ctx, n_batch, n_ubatch are not 512, 2048, 512 by default; use release v0.5.0")
    at_threads = _find(words, [4, 4], 3, 12, "thread counts")
    at_enums = _find(words, [-1] * 4, at_threads, at_threads + 8, "rope/pooling/attention/flash enums")
    at_types = _find(words, [1, 1, 0, 0, 0, 0], at_enums + 4, at_enums + 24, "KV cache types")
    words[:3] = n_ctx, n_batch, n_ubatch
    words[at_threads : at_threads + 2] = threads
    words[at_enums + 3] = int(flash)
    words[at_types : at_types + 2] = _TYPE_IDS[kv]
    return blob


class Llama:
    """One model on llama.cpp's CPU backend. Context manager; not thread-safe.

    kv: "f32" | "f16" | "q8_0" cache type. flash: flash attention (needed for q8_0 V). vocab_only: no weights,
    tokenizer calls only.
    """

    def __init__(
        self,
        path,
        *,
        n_ctx: int = 512,
        n_batch: int | None = None,
        n_ubatch: int = 512,
        threads: int = 2,
        kv: str = "f32",
        flash: bool = False,
        vocab_only: bool = False,
    ):
        where = library_dir()
        if where is None:
            raise PeerError("LLAMA_LIB_DIR does not name a directory with libllama; set it")
        self._llama, self._model, self._ctx = _library(where), None, None
        self.n_ctx, self.n_batch = n_ctx, n_batch or n_ctx
        self._model = self._load(str(path), vocab_only)
        self._vocab = self._llama.llama_model_get_vocab(self._model)
        self.vocab_size = self._llama.llama_vocab_n_tokens(self._vocab)
        self.position = 0
        if not vocab_only:
            params = _context_params(self._llama, n_ctx, self.n_batch, min(n_ubatch, self.n_batch), threads, kv, flash)
            self._ctx = self._llama.llama_init_from_model(self._model, params)
            if not self._ctx:
                self.close()
                raise PeerError(f"{path}: llama.cpp makes no context: {_last_line()}")

    def _load(self, path: str, vocab_only: bool):
        params = self._llama.llama_model_default_params()
        words = _words(params)
        words[4] = 0  # n_gpu_layers follows two pointers in every release
        if vocab_only:
            np.frombuffer(params, np.uint8)[_vocab_only_offset(params)] = 1
        _log_tail.clear()
        model = self._llama.llama_model_load_from_file(path.encode(), params)
        if not model:
            raise PeerError(f"{path}: llama.cpp does not load it: {_last_line()}")
        if vocab_only and not any("vocab only" in line for line in _log_tail):
            self._llama.llama_model_free(model)
            raise PeerError("llama.cpp: vocab_only was not understood; use a release this wrapper knows (v0.5.0)")
        return model

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        if self._ctx:
            self._llama.llama_free(self._ctx)
        if self._model:
            self._llama.llama_model_free(self._model)
        self._ctx = self._model = None

    def tokenize(self, text: str | bytes, parse_special: bool = True, add_special: bool = True) -> list[int]:
        """Token ids of a text, as llama_tokenize gives them."""
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        room = len(raw) + 8
        ids = (C.c_int32 * room)()
        n = self._llama.llama_tokenize(self._vocab, raw, len(raw), ids, room, add_special, parse_special)
        if n < 0:
            raise PeerError(f"llama_tokenize: {-n} ids for {len(raw)} bytes, room for {room}")
        return ids[:n]

    def token_piece(self, token: int, special: bool = False) -> bytes:
        """The bytes one token renders as; special: control tokens render too."""
        room = 64
        while True:
            out = C.create_string_buffer(room)
            n = self._llama.llama_token_to_piece(self._vocab, token, out, room, 0, special)
            if n >= 0:
                return out.raw[:n]
            room = -n

    def detokenize(self, tokens: list[int], special: bool = False) -> bytes:
        """llama_detokenize of the whole list."""
        ids, room = (C.c_int32 * len(tokens))(*tokens), 64 + 16 * len(tokens)
        while True:
            out = C.create_string_buffer(room)
            n = self._llama.llama_detokenize(self._vocab, ids, len(tokens), out, room, False, special)
            if n >= 0:
                return out.raw[:n]
            room = -n

    def is_eog(self, token: int) -> bool:
        """True for a token that ends a generation."""
        return self._llama.llama_vocab_is_eog(self._vocab, token)

    def reset(self) -> None:
        """Forget every token."""
        self._llama.llama_memory_clear(self._llama.llama_get_memory(self._ctx), True)
        self.position = 0

    def eval(self, tokens: list[int], last_only: bool = False) -> np.ndarray:
        """Feed tokens after those fed before: float32 logits [n, vocab] of every one, or [1, vocab] of the last."""
        if self._ctx is None or not tokens or self.position + len(tokens) > self.n_ctx:
            raise PeerError(
                f"eval of {len(tokens)} tokens at {self.position}: needs a context, a token, and n_ctx {self.n_ctx}"
            )
        rows = [self._decode(tokens[i : i + self.n_batch], last_only) for i in range(0, len(tokens), self.n_batch)]
        return rows[-1] if last_only else np.concatenate(rows)

    def _decode(self, tokens: list[int], last_only: bool) -> np.ndarray:
        n, batch = len(tokens), self._llama.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n = n
            for i, token in enumerate(tokens):
                batch.token[i], batch.pos[i], batch.n_seq[i], batch.seq[i][0] = token, self.position + i, 1, 0
                batch.logits[i] = 0 if last_only and i < n - 1 else 1
            status = self._llama.llama_decode(self._ctx, batch)
        finally:
            self._llama.llama_batch_free(batch)
        if status != 0:
            raise PeerError(f"llama_decode of {n} tokens at {self.position}: status {status}: {_last_line()}")
        self.position += n
        wanted = [n - 1] if last_only else range(n)
        return np.stack(
            [
                np.ctypeslib.as_array(self._llama.llama_get_logits_ith(self._ctx, i), (self.vocab_size,)).copy()
                for i in wanted
            ]
        )

    def greedy(self, prompt: list[int], n: int, stop_at_eog: bool = True) -> list[int]:
        """The n most likely next tokens, one by one (first maximum wins); ends before an end-of-generation token."""
        self.reset()
        out: list[int] = []
        logits = self.eval(prompt, last_only=True)
        while len(out) < n:
            token = int(logits[0].argmax())
            if stop_at_eog and self.is_eog(token):
                break
            out.append(token)
            if len(out) < n:
                logits = self.eval([token], last_only=True)
        return out


def _vocab_only_offset(params: _Blob) -> int:
    """Byte offset of `vocab_only`: the first flag, right after a row of null pointers; v0.5.0 has it at 72."""
    if bytes(params.bytes[40:73]).strip(b"\0"):
        raise PeerError("llama.cpp: vocab_only is not where v0.5.0 has it; load with weights")
    return 72


def _last_line() -> str:
    text = "".join(_log_tail).strip()
    return text.splitlines()[-1] if text else "no log line"
