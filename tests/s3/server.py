"""A real S3 server over HTTP for the tests: moto behind a door that remembers and fails on demand.

Run as a program it serves on a free port of 127.0.0.1, prints the port, and ends with its parent's
pipe. The door sits where the network is in real life: between the client and the server.

    GET  /_door/requests   every request since the last clear: method, path, query, status
    POST /_door/clear      forget the requests and the faults
    POST /_door/faults     add one Fault, as JSON
    POST /_door/objects    put many objects at once, unseen: {"bucket": …, "objects": {key: base64},
                           "modified": {key: seconds}}
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass
class Fault:
    """What goes wrong, with which requests, how often.

    `status` answers with an error; `drop` closes the connection; `seconds` makes the answer late.
    With `applied`, the server has done the work before.
    """

    method: str = ""
    path: str = ""
    query: str = ""
    status: int = 0
    code: str = "InternalError"
    drop: bool = False
    seconds: float = 0
    applied: bool = False
    skip: int = 0
    times: int = 1

    def meets(self, method: str, path: str, query: str) -> bool:
        return (
            self.method in {"", method}
            and re.search(self.path, path) is not None
            and re.search(self.query, query) is not None
        )


@dataclass
class Door:
    """A WSGI application around another."""

    application: Callable[..., Iterable[bytes]]
    requests: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    # moto looks whether a key exists and then writes it; S3 does both at once.
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path.startswith("/_door/"):
            return self._control(environ, start_response, path.removeprefix("/_door/"))
        query = environ.get("QUERY_STRING", "")
        seen = {"method": method, "path": path, "query": parse_qs(query, keep_blank_values=True)}
        with self.lock:
            self.requests.append(seen)
            fault = self._next_fault(method, path, query)

        answer = [b""]

        def remember(status: str, headers: Any, *rest: Any) -> Any:
            seen["status"] = int(status.split(maxsplit=1)[0])
            answer[:] = [status, headers]
            return None

        if fault is None or fault.applied:
            with self.one_at_a_time:
                body = b"".join(self.application(environ, remember))
        if fault is None:
            start_response(*answer)
            return [body]
        time.sleep(fault.seconds)
        if fault.drop:
            seen["status"] = 0
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        elif fault.status:
            if not fault.applied:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            seen["status"] = fault.status
            error = f"<Error><Code>{fault.code}</Code><Message>asked for</Message></Error>"
            body = b"" if method == "HEAD" else error.encode()
            length = ("Content-Length", str(len(body)))
            start_response(f"{fault.status} asked for", [length])
            return [body]
        else:
            start_response(*answer)
            return [body]
        start_response("500 dropped", [])
        return []

    def _next_fault(self, method: str, path: str, query: str) -> Fault | None:
        for fault in self.faults:
            if fault.meets(method, path, query):
                if fault.skip:
                    fault.skip -= 1
                elif fault.times:
                    fault.times -= 1
                    return fault
        return None

    def _control(self, environ: dict[str, Any], start_response: Any, what: str) -> list[bytes]:
        posted = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with self.lock:
            answer = json.dumps(self.requests).encode() if what == "requests" else b"{}"
            if what == "clear":
                self.requests.clear()
                self.faults.clear()
            if what == "faults":
                self.faults.append(Fault(**json.loads(posted)))
            if what == "objects":
                _put_objects(**json.loads(posted))
        start_response("200 OK", [("Content-Length", str(len(answer)))])
        return [answer]


def _put_objects(bucket: str, objects: dict[str, str], modified: dict[str, float]) -> None:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for key, data in objects.items():
        put = backend.put_object(bucket, key, base64.b64decode(data))
        if key in modified:
            put.last_modified = datetime.fromtimestamp(modified[key], timezone.utc)


def main() -> None:
    import logging

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    door = Door(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, door, threaded=True)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until the parent is gone
    os._exit(0)


if __name__ == "__main__":
    main()
