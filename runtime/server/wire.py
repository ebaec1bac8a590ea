"""Bodies in and out: a POST's JSON as Fields, answers and errors as JSON responses."""

from __future__ import annotations

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from runtime.server.errors import ApiError, ClientGone
from runtime.server.fields import Fields, json_kind


def json_response(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, "application/json")


def error_response(error: ApiError, headers: dict[str, str] | None = None) -> Response:
    return json_response(error.body(), error.status, headers)


async def read_fields(request: Request, max_body: int) -> Fields:
    """The body of a POST as Fields. ApiError 413 above max_body bytes, 400 when it is no JSON object."""
    too_big = ApiError(413, f"the body is larger than {max_body} bytes")
    try:
        if int(request.headers.get("content-length", "0")) > max_body:
            raise too_big
    except ValueError:
        raise ApiError(400, "the Content-Length header is no number") from None
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > max_body:
                raise too_big
    except ClientDisconnect:
        raise ClientGone from None
    try:
        data = orjson.loads(bytes(body))
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"the body is no valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ApiError(400, f"the body must be a JSON object, not {json_kind(data)}")
    return Fields(data)
