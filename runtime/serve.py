"""python -m runtime.serve [MODEL.gguf]: an HTTP server with OpenAI's and llama-server's routes over one model.

The port is bound first and /health says "Loading model" while the model loads, as with llama-server. SIGINT and SIGTERM
end the running answers and exit 0; a model that cannot be loaded, or an engine that dies, exits 1 with one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import time
from pathlib import Path

from runtime.server.launch import (
    LineParser,
    StartError,
    add_model_options,
    bounded,
    model_path,
    open_model,
    progress_bar,
    refuse_unserved,
)

PROG = "runtime.serve"
DEATH_NOTICE_S = 2.0  # a dead engine's reason can be read at /health for this long
CLOSE_S = 15.0


def parse(argv: list[str] | None):
    parser = LineParser(PROG, description="Serve a GGUF model over HTTP.")
    add_model_options(parser)
    add = parser.add_argument
    add("--host", default="127.0.0.1", metavar="H", help="address to listen on (127.0.0.1)")
    add("--port", type=bounded(int, 0, 65535), default=8080, metavar="P", help="port, 0: any free one (8080)")
    add("-np", "--parallel", type=bounded(int, 1, 4096), default=1, metavar="N", help="sequences at once")
    add("--api-key", metavar="K", help="keys that clients must send, with commas between (also RUNTIME_API_KEY)")
    add("--api-key-file", metavar="FILE", help="the same from a file, one a line")
    add("--verbose", action="store_true", help="a line for every request")
    return parser.parse_args(argv)


def api_keys(args) -> tuple[str, ...]:
    """The keys of all sources. StartError for a file that cannot be read, or a source that holds no key."""
    keys = []
    for source, text in (("--api-key", args.api_key), ("RUNTIME_API_KEY", os.environ.get("RUNTIME_API_KEY"))):
        if text is not None:
            keys += _split_keys(source, text, ",")
    if args.api_key_file is not None:
        try:
            text = Path(args.api_key_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(f"--api-key-file {args.api_key_file} cannot be read: {error}") from None
        keys += _split_keys(f"--api-key-file {args.api_key_file}", text, "\n")
    return tuple(keys)


def _split_keys(source: str, text: str, separator: str) -> list[str]:
    keys = [key for part in text.split(separator) if (key := part.strip())]
    if not keys:  # an empty key must not open a server that was meant to be locked
        raise StartError(f"{source} holds no key: give one, or leave it out")
    return keys


def listen(host: str, port: int) -> socket.socket:
    """A bound and listening socket. StartError when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(2048)
    except (OSError, UnicodeError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise StartError(f"cannot listen on {host}:{port}: {text}; choose another --host or --port") from None
    return sock


def url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Loader(threading.Thread):
    """Loads the model beside the server, which then is ready, or stops with `failure`."""

    def __init__(self, args, path: Path, address: str):
        super().__init__(name="loader", daemon=True)
        self.args = args
        self.path = path
        self.address = address
        self.failure: str | None = None
        self.loaded = None
        self.server = None

    def run(self) -> None:
        from runtime.server.log import reason

        started = time.perf_counter()
        try:
            with progress_bar() as progress:
                loaded = open_model(self.args, self.path, progress)
        except Exception as error:
            self.failure = reason(error)
            self.server.should_exit = True
            return
        self.loaded = loaded
        self.server.service.ready(loaded.engine, loaded.tokenizer, loaded.template)
        seconds = time.perf_counter() - started
        while not self.server.started and not self.server.should_exit:
            time.sleep(0.002)  # a small model is ready before uvicorn is
        about = f"context {loaded.engine.n_ctx} tokens, loaded in {seconds:.1f} s"
        with contextlib.suppress(OSError):  # nobody reads stdout any more
            print(f"{self.address} serves {loaded.engine.model_name} ({about})", flush=True)


def make_server(app, verbose: bool):
    """A uvicorn server that closes the service before it waits for connections, and watches the engine."""
    import uvicorn

    class Server(uvicorn.Server):
        service = app.state.service
        death: str | None = None
        _noticed = 0.0

        def handle_exit(self, sig, frame) -> None:
            # unlike uvicorn's own, not raised again at the end: a server that was asked to stop exits 0. A second signal
            # does not force the exit, which tears the lifespan task and prints its traceback: stopping is bounded anyway
            self.should_exit = True

        async def on_tick(self, counter: int) -> bool:
            if self.death is None and self.service.engine_died:
                self.death, self._noticed = self.service.engine_died, time.monotonic()
            if self.death is not None and time.monotonic() - self._noticed > DEATH_NOTICE_S:
                self.should_exit = True
            return await super().on_tick(counter)

        async def shutdown(self, sockets=None) -> None:
            self.service.close()
            await super().shutdown(sockets)

    logging.getLogger("uvicorn.error").addFilter(_no_cancelled_traceback)
    config = uvicorn.Config(
        app,
        log_level="info" if verbose else "warning",
        access_log=verbose,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=5,
    )
    return Server(config)


def _no_cancelled_traceback(record: logging.LogRecord) -> bool:
    """A request that is cut off because the server was told to stop is no fault to show."""
    return "CancelledError" not in record.getMessage() and not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def serve(args) -> int:
    refuse_unserved(args)
    path = model_path(args)
    keys = api_keys(args)
    sock = listen(args.host, args.port)
    if not keys and not sock.getsockname()[0].startswith(("127.", "::1")):
        print(f"{PROG}: {url(sock)} is open to others without an --api-key", file=sys.stderr)
    loader = Loader(args, path, url(sock))

    from runtime.server.app import create_app
    from runtime.server.settings import Settings

    app = create_app(None, None, None, Settings(model_path=str(path), api_keys=keys, parallel=args.parallel))
    server = loader.server = make_server(app, args.verbose)
    loader.start()
    server.run(sockets=[sock])
    failure = loader.failure or server.death
    if failure:
        print(f"{PROG}: {failure}", file=sys.stderr, flush=True)
    _leave(loader, 1 if failure else 0)
    return 1 if failure else 0


def _leave(loader: Loader, status: int) -> None:
    """Give the device back. A thread that hangs in a driver must not keep the process: then it ends at once."""
    loader.join(0.1)
    closing = loader
    if loader.loaded is not None:
        loader.loaded.template.close()
        closing = threading.Thread(target=loader.loaded.engine.close, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
    if closing.is_alive():
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # the progress bar has hidden the cursor
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    try:
        return serve(args)
    except StartError as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{PROG}: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
