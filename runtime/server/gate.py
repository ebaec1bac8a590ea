"""What every request passes: the API key, the count of requests by route and status, the last resort for a fault."""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.server.errors import ApiError
from runtime.server.log import report
from runtime.server.service import Service
from runtime.server.wire import error_response

PUBLIC = frozenset({"/", "/health", "/v1/health"})


class Gate:
    """Pure ASGI middleware. `known` are the routes' paths: any other counts as "other" in the metrics."""

    def __init__(self, app: ASGIApp, service: Service, known: frozenset[str]):
        self.app = app
        self.service = service
        self.known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 0

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if scope["path"] not in PUBLIC and not self._allowed(Request(scope)):
                error = ApiError(401, "the API key is missing or wrong: send it as 'Authorization: Bearer KEY'")
                await error_response(error, {"WWW-Authenticate": "Bearer"})(scope, receive, counted)
            else:
                await self.app(scope, receive, counted)
        except Exception as error:
            failure = report(error)
            if not status:
                await error_response(failure)(scope, receive, counted)
        route = scope["path"] if scope["path"] in self.known else "other"
        self.service.metrics.requests.labels(route, status or "gone").inc()

    def _allowed(self, request: Request) -> bool:
        keys = self.service.settings.api_keys
        if not keys:
            return True
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        offered = [request.headers.get("x-api-key", "")]
        if scheme.lower() == "bearer":
            offered.append(bearer.strip())
        # every pair is compared, in constant time: the time taken says nothing about the key
        matches = [hmac.compare_digest(one.encode("latin-1"), key.encode()) for one in offered for key in keys]
        return any(matches)
