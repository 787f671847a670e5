"""The S3 server, for any test: `s3` is a fresh bucket on it, with the environment set."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import uuid
from base64 import b64encode
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.s3.server import Fault

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing-secret",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Request:
    """One request as the server saw it. A dropped one has status 0."""

    method: str
    path: str
    query: dict[str, list[str]]
    status: int = 0

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "list-type" in self.query

    @property
    def key(self) -> str:
        """The object's key; empty for a request to the bucket."""
        return self.path.lstrip("/").partition("/")[2]


@dataclass
class S3Server:
    """A running server and one bucket on it. `url` is a table root nobody else uses."""

    port: int
    bucket: str = field(default_factory=lambda: f"bucket-{uuid.uuid4().hex}")

    @cached_property
    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/table"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to find the server and its credentials."""
        # Without the last, botocore asks the network of a cloud that is not there.
        return {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def options(self) -> dict[str, str]:
        """The same as storage options, in deltalake's names."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true"}

    def requests(self) -> list[Request]:
        """Return what clients asked since the test began, or since `clear`."""
        return [Request(**seen) for seen in json.loads(self._ask("GET", "/_door/requests"))]

    def clear(self) -> None:
        """Forget the requests and the faults."""
        self._ask("POST", "/_door/clear")

    def fail(self, **fault: Any) -> None:
        """Make the next matching requests fail: see `Fault` for how."""
        self._ask("POST", "/_door/faults", json.dumps(asdict(Fault(**fault))).encode())

    def put(self, name: str, data: bytes = b"") -> None:
        """Put an object at `table/name`, behind the back of what is tested."""
        self.put_many({name: data})

    def put_many(self, objects: dict[str, bytes], modified: dict[str, float] | None = None) -> None:
        """Put objects at `table/…` in one go, modified at given seconds, or now; unremembered."""
        encoded = {f"table/{name}": b64encode(data).decode() for name, data in objects.items()}
        times = {f"table/{name}": seconds for name, seconds in (modified or {}).items()}
        told = {"bucket": self.bucket, "objects": encoded, "modified": times}
        posted = json.dumps(told).encode()
        self._ask("POST", "/_door/objects", posted)

    def upload(self, directory: Path) -> None:
        """Put every file under a local directory at `table/…`, by the same names."""
        files = (path for path in sorted(directory.rglob("*")) if path.is_file())
        self.put_many({str(path.relative_to(directory)): path.read_bytes() for path in files})

    def create_bucket(self) -> None:
        self._ask("PUT", f"/{self.bucket}")

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        self.connection.request(method, quote(path), body)
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status < 300, (method, path, answer.status, data)
        return data


@pytest.fixture(scope="session")
def s3_server():
    """The port of a server that lives as long as the tests."""
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **CREDENTIALS},
        text=True,
    )
    try:
        yield int(server.stdout.readline())
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(timeout=10)


@pytest.fixture
def s3(s3_server: int, monkeypatch: pytest.MonkeyPatch):
    """A fresh bucket; the environment points every client at it; no requests remembered yet."""
    server = S3Server(s3_server)
    server.clear()  # first: a fault that the last test left would meet the next line
    server.create_bucket()
    server.clear()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.connection.close()
