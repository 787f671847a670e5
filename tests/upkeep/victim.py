"""A process that checkpoints a table, and is killed at a step of its own choice."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import s3fs

from engine.storage import local
from engine.upkeep.checkpoint.shape import Shape
from tests.logs import LogBuilder, metadata, protocol
from tests.upkeep.kept import write

if TYPE_CHECKING:
    from collections.abc import Callable

# What changes a disk, and what changes a bucket.
SYSTEM_CALLS = ("link", "unlink", "replace", "rmdir", "makedirs")
REQUESTS = frozenset(
    {
        *("put_object", "create_multipart_upload", "upload_part", "upload_part_copy"),
        *("complete_multipart_upload", "delete_object", "delete_objects"),
    }
)


def obey(order: dict[str, Any]) -> None:
    """Checkpoint a table, and die before the step that the order names."""
    arm(order["step"])
    write(order["table"], Shape(order["shape"]), options=order["options"])


def rehearse(folder: str) -> None:
    """Do what an order may ask for."""
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    log = LogBuilder(Path(folder))
    log.commit(protocol(3, 7, **features), metadata())
    for shape in (Shape.CLASSIC, Shape.V2_PARQUET, Shape.V2_JSON):
        log.filler(1)
        write(folder, shape)


def arm(step: int) -> None:
    """Let this process die before its `step`-th change."""
    counter = itertools.count(1)

    def count() -> None:
        if next(counter) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            count()
            return function(*args, **kwargs)

        return call

    for name in SYSTEM_CALLS:
        setattr(os, name, counted(getattr(os, name)))
    local._sync = counted(local._sync)
    plain, waited = s3fs.S3FileSystem._call_s3, s3fs.S3FileSystem.call_s3

    async def requested(self: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method in REQUESTS:
            count()
        return await plain(self, method, *args, **kwargs)

    def called(self: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method in REQUESTS:
            count()
        return waited(self, method, *args, **kwargs)

    s3fs.S3FileSystem._call_s3, s3fs.S3FileSystem.call_s3 = requested, called
