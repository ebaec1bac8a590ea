"""llama-server's own routes: /completion and its answer, /tokenize, /detokenize, /props."""

from __future__ import annotations

from runtime.engine.request import Sampling
from runtime.server.fields import Fields
from runtime.server.params import Params
from runtime.server.prompts import encode_parts, read_ids, read_prompt
from runtime.server.run import Piece, Run
from runtime.server.service import Service


class NativeAnswer:
    """POST /completion; a stream of it has no [DONE]."""

    done_marker = False
    satisfied = False

    def __init__(self, model: str, prompt: str, return_tokens: bool):
        self._model = model
        self._prompt = prompt
        self._return_tokens = return_tokens
        self._texts: list[str] = []
        self._tokens: list[int] = []
        self._prompt_tokens = 0

    def start(self) -> list[dict]:
        return []

    def piece(self, piece: Piece) -> list[dict]:
        self._texts.append(piece.text)
        self._tokens += piece.tokens
        tokens = piece.tokens if self._return_tokens else []
        chunk = {"index": 0, "content": piece.text, "tokens": tokens, "stop": False, "id_slot": 0}
        return [chunk | {"tokens_predicted": len(self._tokens)}] if piece.text or tokens else []

    def end(self, run: Run) -> list[dict]:
        return [self._final(run, "", [])]

    def whole(self, run: Run) -> dict:
        return self._final(run, "".join(self._texts), self._tokens if self._return_tokens else [])

    def _final(self, run: Run, content: str, tokens: list[int]) -> dict:
        kind = "limit" if run.finish == "length" else "word" if run.stop_word is not None else "eos"
        return {
            "index": 0,
            "content": content,
            "tokens": tokens,
            "id_slot": 0,
            "stop": True,
            "model": self._model,
            "tokens_predicted": run.completion_tokens,
            "tokens_evaluated": run.stream.prompt_tokens,
            "tokens_cached": run.stream.cached_tokens,
            "generation_settings": generation_settings(run.params, run.stream.seed),
            "prompt": self._prompt,
            "has_new_line": any("\n" in text for text in self._texts),
            "truncated": run.truncated,
            "stop_type": kind,
            "stopping_word": run.stop_word or "",
            "timings": run.timings(),
        }


def generation_settings(params: Params, seed: int) -> dict:
    return sampling_object(params.sampling) | {
        "seed": seed,
        "n_predict": params.max_tokens,
        "max_tokens": params.max_tokens,
        "stop": list(params.stop),
        "stream": params.stream,
    }


def sampling_object(sampling: Sampling) -> dict:
    names = ("temperature", "top_k", "top_p", "min_p", "seed")
    return {name: getattr(sampling, name) for name in names}


async def tokenize(service: Service, fields: Fields) -> dict:
    """{content, add_special, parse_special, with_pieces} -> {tokens}; a piece that is no UTF-8 comes as its bytes."""
    parts = read_prompt(fields, "content")
    add_special = fields.boolean("add_special", False)
    parse_special = fields.boolean("parse_special", True)
    with_pieces = fields.boolean("with_pieces", False)
    tokenizer = service.tokenizer
    ids = await service.text(lambda: encode_parts(tokenizer, parts, add_special, parse_special))
    if not with_pieces:
        return {"tokens": ids}
    read_ids(Fields({"content": ids}), "content", tokenizer.vocab_size)
    return {"tokens": [{"id": token, "piece": _piece(tokenizer.token_bytes(token, special=True))} for token in ids]}


def _piece(raw: bytes) -> str | list[int]:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


async def detokenize(service: Service, fields: Fields) -> dict:
    """{tokens} -> {content}; special tokens are spelled out."""
    ids = read_ids(fields, "tokens", service.tokenizer.vocab_size)
    raw = await service.text(lambda: service.tokenizer.decode_bytes(ids, special=True))
    return {"content": raw.decode("utf-8", "replace")}


def props(service: Service) -> dict:
    """GET /props."""
    engine, tokenizer, settings = service.engine, service.tokenizer, service.settings

    def spelled(token: int | None) -> str:
        return "" if token is None else tokenizer.token_text(token)

    return {
        "default_generation_settings": {"n_ctx": engine.n_ctx, "params": sampling_object(settings.sampling)},
        "total_slots": settings.parallel,
        "n_ctx": engine.n_ctx,
        "n_vocab": engine.vocab_size,
        "model": engine.model_name,
        "model_path": settings.model_path,
        "chat_template": getattr(service.template, "source", ""),
        "bos_token": spelled(tokenizer.bos),
        "eos_token": spelled(tokenizer.eos),
        "modalities": {"vision": False, "audio": False},
    }
