"""The server of the page: on this machine only, for those who know the address."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from deepsep.apps.label.session import Session
from deepsep.errors import DeepSepError, ParameterError, missing_package

PAGE_FILES = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Server:
    """A page on the loopback address, on a free port by default, below a path that nobody can guess: ``address``.

    The token is a part of the path, and not a cookie: browsers send cookies to every port of a host, so to the servers
    of other users of this machine as well.
    """

    def __init__(self, session: Session, port: int = 0) -> None:
        try:
            import uvicorn
        except ImportError as error:
            raise missing_package("the labelling page", "'deepsep[label]'") from error
        host = "127.0.0.1"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name == "posix":  # elsewhere it would let others take the port
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen()
        except (OSError, OverflowError):
            self._socket.close()
            raise ParameterError(
                f"port {port} is taken. Name another one, or none: a free one is then chosen."
            ) from None
        self.port, self.token = self._socket.getsockname()[1], secrets.token_urlsafe(32)
        self.address = f"http://{host}:{self.port}/{self.token}/"
        app = Guard(_routes(session, self.token), self.token, f"{host}:{self.port}")
        quiet: Any = {"log_level": "error", "access_log": False, "server_header": False, "lifespan": "off"}
        self._server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=1, **quiet))

    def run(self) -> None:
        """Serve the page until Ctrl-C."""
        try:
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass
        finally:
            self._socket.close()

    def stop(self) -> None:
        """End :meth:`run`, from another thread."""
        self._server.should_exit = True


class Guard:
    """Answers requests with the right token, for the right host, and from the page itself; others get nothing.

    A name that resolves to this machine is another host than the given address and port.
    """

    def __init__(self, app: Any, token: str, host: str) -> None:
        self.app, self.token, self.host = app, token, host

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or not self._is_allowed(scope):
            if scope["type"] == "http":
                await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
                await send({"type": "http.response.body", "body": b""})
            else:
                await send({"type": "websocket.close"})
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self.app(scope, receive, with_headers)

    def _is_allowed(self, scope: Any) -> bool:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        _, given, *rest = f"{scope['path']}/".split("/", 2)
        if headers.get("host") != [self.host] or not hmac.compare_digest(given.encode(), self.token.encode()):
            return False
        site = headers.get("sec-fetch-site")  # None: not a browser
        if scope["method"] == "GET":  # the page may be opened from elsewhere; what is on it comes from the page
            opened = rest == ["/"] and headers.get("sec-fetch-dest") == ["document"]
            return opened or site in (None, ["same-origin"], ["none"])
        return (
            scope["method"] == "POST"
            and headers.get("origin") == [f"http://{self.host}"]
            and site in (None, ["same-origin"])
            and headers.get("content-type") == ["application/json"]
        )


def _routes(session: Session, token: str) -> Any:
    """Return the application: three files, and the requests of the page."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Mount, Route

    def file(name: str) -> Callable[[Request], Response]:
        source, kind = PAGE_FILES[name]
        content = files("deepsep.apps.label").joinpath(source).read_bytes()
        return lambda request: Response(content, media_type=kind)

    async def reply(function: Callable[..., Any], *arguments: Any) -> Response:
        try:
            return JSONResponse(await run_in_threadpool(function, *arguments))
        except DeepSepError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except OSError as error:
            message = f"{session.answers.path} cannot be written: {error.strerror or error}. The answer was not saved."
            return JSONResponse({"error": message}, status_code=500)

    def reading(function: Callable[[], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            return await reply(function)

        return endpoint

    def writing(function: Callable[..., Any], **wanted: Any) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                values = _fields(await _body(request), wanted)
            except (ValueError, RecursionError):
                return JSONResponse({"error": "the request is malformed."}, status_code=400)
            return await reply(function, *values)

        return endpoint

    async def search(request: Request) -> Response:
        return await reply(lambda: {"rows": session.search(request.query_params.get("words", "")[:200])})

    number, text = (int,), (str,)
    routes = [Route(f"/{name}", file(name)) for name in PAGE_FILES]
    routes += [
        Route("/state", reading(session.state)),
        Route("/progress", reading(session.progress)),
        Route("/search", search),
        Route("/answer", writing(session.answer, row=number, label=(str, type(None))), methods=["POST"]),
        Route("/skip", writing(session.skip, row=number), methods=["POST"]),
        Route("/show", writing(session.show, row=number), methods=["POST"]),
        Route("/undo", writing(session.undo), methods=["POST"]),
        Route("/class", writing(session.add_class, name=text), methods=["POST"]),
    ]
    return Starlette(routes=[Mount(f"/{token}", routes=routes)])


async def _body(request: Any, max_bytes: int = 10_000) -> Any:
    """Return the JSON of a request that is not too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            raise ValueError("too long")
    return json.loads(body)


def _fields(given: Any, wanted: dict[str, tuple[type, ...]]) -> list[Any]:
    """Return the values of an object that has exactly these fields, of these types."""
    if not isinstance(given, dict) or given.keys() != wanted.keys():
        raise ValueError("other fields")
    for name, kinds in wanted.items():
        if not isinstance(given[name], kinds) or isinstance(given[name], bool):
            raise ValueError(f"the type of {name}")
    return [given[name] for name in wanted]
