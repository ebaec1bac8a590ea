"""Errors as JSON: OpenAI's {"error": {message, type, param, code}}, with llama-server's types and integer codes."""

from __future__ import annotations

from runtime.engine.request import RequestError

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    500: "server_error",
    501: "not_supported_error",
    503: "unavailable_error",
}


class ApiError(Exception):
    """What a route raises to answer with an error; `param`: the field at fault; `extra`: more members of the error."""

    def __init__(self, status: int, message: str, param: str | None = None, kind: str | None = None, **extra):
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
        self.extra = extra

    def body(self) -> dict:
        fields = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return {"error": fields | self.extra}


class ClientGone(Exception):
    """The client closed its connection; nobody reads the answer."""


def from_request_error(error: RequestError) -> ApiError:
    """A RequestError as the 400 that a client understands."""
    if error.n_ctx is None:
        return ApiError(400, str(error), error.field)
    return ApiError(
        400,
        str(error),
        error.field,
        "exceed_context_size_error",
        n_prompt_tokens=error.n_prompt_tokens,
        n_ctx=error.n_ctx,
    )
