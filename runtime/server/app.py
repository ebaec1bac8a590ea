"""The Starlette application: routes over one Service.

`create_app(engine, tokenizer, template, settings)`; with engine None it answers 503 "Loading model" until
`app.state.service.ready(...)`, as llama-server does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.engine.request import Engine
from runtime.server import native
from runtime.server.answers import Answer, ChatAnswer, TextAnswer
from runtime.server.errors import ApiError, ClientGone
from runtime.server.fields import Fields
from runtime.server.gate import Gate
from runtime.server.messages import read_chat
from runtime.server.metrics import CONTENT_TYPE
from runtime.server.net import EventStream, collect, while_connected
from runtime.server.page import page_response
from runtime.server.params import read_params
from runtime.server.prompts import encode_parts, read_prompt
from runtime.server.reply import ReplyParser, opens_thinking
from runtime.server.run import Run
from runtime.server.service import Service
from runtime.server.settings import Settings
from runtime.server.wire import error_response, json_response, read_fields


def create_app(engine: Engine | None, tokenizer, template, settings: Settings) -> Starlette:
    """The ASGI application. tokenizer and template follow runtime.text's Tokenizer and ChatTemplate."""
    service = Service(settings)
    routes = [Route(path, handler, methods=[method]) for method, path, handler in ROUTES]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Gate, service=service, known=frozenset(path for _, path, _ in ROUTES))],
        exception_handlers={ApiError: _api_error, HTTPException: _http_error, ClientGone: _client_gone},
        lifespan=_lifespan,
    )
    app.state.service = service
    if engine is not None:
        service.ready(engine, tokenizer, template)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette):
    service: Service = app.state.service
    watch = asyncio.ensure_future(service.watch())
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        service.close()


async def _api_error(request: Request, error: ApiError) -> Response:
    # a body that was not read to its end would be taken for the next request
    return error_response(error, {"Connection": "close"} if error.status == 413 else None)


async def _http_error(request: Request, error: HTTPException) -> Response:
    messages = {404: f"there is no {request.url.path} here", 405: f"{request.url.path} does not take {request.method}"}
    message = messages.get(error.status_code, error.detail)
    return error_response(ApiError(error.status_code, message), dict(error.headers or {}))


async def _client_gone(request: Request, error: ClientGone) -> Response:
    return Response(status_code=499)  # nobody reads it


def _service(request: Request) -> Service:
    return request.app.state.service


# without a model ------------------------------------------------------------------------------------------------------
async def health(request: Request) -> Response:
    _service(request).check()
    return json_response({"status": "ok"})


async def metrics(request: Request) -> Response:
    return Response(_service(request).metrics.text(), media_type=None, headers={"content-type": CONTENT_TYPE})


async def page(request: Request) -> Response:
    return page_response()


# about the model ------------------------------------------------------------------------------------------------------
async def models(request: Request) -> Response:
    service = _service(request)
    service.check()
    engine = service.engine
    meta = {"n_ctx": engine.n_ctx, "n_vocab": engine.vocab_size}
    model = {"id": engine.model_name, "object": "model", "created": STARTED, "owned_by": "local", "meta": meta}
    return json_response({"object": "list", "data": [model]})


async def props(request: Request) -> Response:
    service = _service(request)
    service.check()
    return json_response(native.props(service))


async def tokenize(request: Request) -> Response:
    service, fields = await _open(request)
    return json_response(await native.tokenize(service, fields))


async def detokenize(request: Request) -> Response:
    service, fields = await _open(request)
    return json_response(await native.detokenize(service, fields))


async def apply_template(request: Request) -> Response:
    service, fields = await _open(request)
    chat = read_chat(fields)
    return json_response({"prompt": await service.text(lambda: chat.render(service.template))})


# completions ----------------------------------------------------------------------------------------------------------
async def chat_completions(request: Request) -> Response:
    service, fields = await _open(request)
    chat = read_chat(fields)
    params = read_params(fields, service.settings.sampling)
    rendered: list[str] = []

    def make_prompt() -> list[int]:
        rendered.append(chat.render(service.template))
        return service.tokenizer.encode(rendered[0])

    run = await service.start(make_prompt, params)
    parser = ReplyParser(bool(chat.tools), chat.split_reasoning, opens_thinking(rendered[0]))
    answer = ChatAnswer(service.engine.model_name, parser, params.include_usage, chat.parallel_calls)
    return await _respond(request, service, run, answer)


async def completions(request: Request) -> Response:
    service, fields = await _open(request)
    parts = read_prompt(fields)
    params = read_params(fields, service.settings.sampling)
    run = await service.start(lambda: encode_parts(service.tokenizer, parts), params)
    return await _respond(request, service, run, TextAnswer(service.engine.model_name, params.include_usage))


async def completion(request: Request) -> Response:
    service, fields = await _open(request)
    parts = read_prompt(fields)
    params = read_params(fields, service.settings.sampling)
    return_tokens = fields.boolean("return_tokens", False)
    prompt: list[str] = []

    def make_prompt() -> list[int]:
        ids = encode_parts(service.tokenizer, parts)
        if all(0 <= token < service.tokenizer.vocab_size for token in ids):  # Request.check refuses the others
            prompt.append(service.tokenizer.decode_bytes(ids, special=True).decode("utf-8", "replace"))
        return ids

    run = await service.start(make_prompt, params)
    answer = native.NativeAnswer(service.engine.model_name, "".join(prompt), return_tokens)
    return await _respond(request, service, run, answer)


async def _open(request: Request) -> tuple[Service, Fields]:
    """The service, when it serves, and the body."""
    service = _service(request)
    service.check()
    return service, await read_fields(request, service.settings.max_body)


async def _respond(request: Request, service: Service, run: Run, answer: Answer) -> Response:
    if run.params.stream:
        return EventStream(service, run, answer)
    try:
        return json_response(await while_connected(collect(run, answer), request.receive))
    finally:
        service.finished(run)


STARTED = int(time.time())
ROUTES = (
    ("GET", "/", page),
    ("GET", "/health", health),
    ("GET", "/v1/health", health),
    ("GET", "/metrics", metrics),
    ("GET", "/models", models),
    ("GET", "/v1/models", models),
    ("GET", "/props", props),
    ("POST", "/tokenize", tokenize),
    ("POST", "/detokenize", detokenize),
    ("POST", "/apply-template", apply_template),
    ("POST", "/chat/completions", chat_completions),
    ("POST", "/v1/chat/completions", chat_completions),
    ("POST", "/completions", completions),
    ("POST", "/v1/completions", completions),
    ("POST", "/completion", completion),
)
