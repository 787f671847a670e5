"""Where are the bytes on S3? Lists that start late, writes that never overwrite."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fsspec.asyn import sync

from engine.config import MAX_CONCURRENT_READS, READ_TIMEOUT_SECONDS
from engine.errors import StorageError
from engine.storage import FileInfo
from engine.storage.remote import RemoteStorage
from engine.storage.s3client import (
    CONFLICT_STATUS,
    TRANSIENT,
    TRANSIENT_STATUS,
    answer,
    client,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Who wrote an object, as metadata on it: tells our write, its answer lost, from another's.
_WRITER: Final = "txlog-writer"

# Larger files are sent in parts of this size.
PART_BYTES = 64 * 1024**2


class S3Storage(RemoteStorage):
    """S3 and what speaks its protocol."""

    transient: ClassVar[tuple[type[BaseException], ...]] = (*RemoteStorage.transient, *TRANSIENT)

    def root(self, path: str) -> str:
        """Return `bucket/key`."""
        if not path.strip("/") or path.startswith("/"):
            raise StorageError(self.url(path), "no bucket is named; write s3://bucket/path")
        return path.rstrip("/")

    def list_from(self, directory: str, name: str = "") -> list[FileInfo]:
        """Return the files of `directory` from `name` on; what sorts before is never listed."""
        return self.list_both(directory, name)[0]

    def list_directories(self, directory: str, name: str = "") -> list[str]:
        """Return the common prefixes of `directory` from `name` on."""
        return self.list_both(directory, name)[1]

    def list_both(self, directory: str, name: str = "") -> tuple[list[FileInfo], list[str]]:
        """Return files and common prefixes: one page of S3's answer holds both."""
        bucket, prefix = _bucket_and_key(directory + "/")
        files: list[FileInfo] = []
        directories: list[str] = []
        for page in self._pages(directory, name):
            files += (
                FileInfo(
                    f"{bucket}/{found['Key']}",
                    found["Size"],
                    round(found["LastModified"].timestamp() * 1000),
                    found.get("ETag", "").strip('"'),
                )
                for found in page.get("Contents", ())
                if found["Key"][len(prefix) :] >= (name or "\0")
            )
            directories += (f["Prefix"][len(prefix) : -1] for f in page.get("CommonPrefixes", ()))
        return files, [found for found in directories if found and found >= name]

    def size(self, path: str) -> int:
        """Return the size of an object."""
        return int(self._head(path)["ContentLength"])

    def read(self, path: str) -> bytes:
        """Return the whole object, in one request."""
        return self._retried(path, lambda: self._get(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of the object."""
        if length <= 0:
            return b""
        wanted = f"bytes={start}-{start + length - 1}"
        return self._retried(path, lambda: self._get(path, Range=wanted))

    def write_new(self, path: str, data: bytes, *, makes_parent: bool = True) -> None:
        """Write by a request that S3 refuses when the key exists."""
        bucket, key = _bucket_and_key(path)

        def create(writer: str) -> None:
            if len(data) > PART_BYTES:
                return self._upload(path, writer, lambda upload: self._send(path, data, upload))
            where = {"Bucket": bucket, "Key": key, "Metadata": {_WRITER: writer}}
            self._fs.call_s3("put_object", Body=data, IfNoneMatch="*", **where)
            return None

        self._created_by_us(path, create, lambda: self.read(path) == data)

    def publish(self, staged: str, final: str) -> None:
        """Copy inside S3, then drop the staged object."""

        # A multipart upload of one copied part: unlike CopyObject, every store that knows
        # conditional writes refuses its last step when the key exists.
        def copy(upload: dict[str, Any]) -> list[str]:
            copied = self._fs.call_s3("upload_part_copy", PartNumber=1, CopySource=staged, **upload)
            return [copied["CopyPartResult"]["ETag"]]

        self._created_by_us(final, lambda writer: self._upload(final, writer, copy), lambda: False)
        self._retried(staged, lambda: self._fs.rm_file(staged))

    def delete_many(self, paths: Iterable[str]) -> dict[str, str]:
        """Delete a thousand a request."""
        failed = {}
        by_bucket: dict[str, list[str]] = {}
        for path in paths:
            by_bucket.setdefault(_bucket_and_key(path)[0], []).append(path)
        for bucket, found in by_bucket.items():
            for at in range(0, len(found), 1000):
                failed.update(self._delete_batch(bucket, found[at : at + 1000]))
        return failed

    # --- requests ------------------------------------------------------------------------------

    def _connect(self) -> Any:
        reads = self.config[MAX_CONCURRENT_READS]
        return client(self.options, self.config[READ_TIMEOUT_SECONDS], reads)

    def _pages(self, directory: str, name: str) -> Iterator[dict[str, Any]]:
        bucket, prefix = _bucket_and_key(directory + "/")
        request = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/"}
        if name:
            request["StartAfter"] = prefix + _just_before(name)
        while True:
            page = self._call(directory, "list_objects_v2", **request)
            yield page
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _call(self, path: str, method: str, **arguments: Any) -> Any:
        return self._retried(path, lambda: self._fs.call_s3(method, **arguments))

    def _head(self, path: str) -> Any:
        bucket, key = _bucket_and_key(path)
        return self._call(path, "head_object", Bucket=bucket, Key=key)

    def _get(self, path: str, **arguments: Any) -> bytes:
        bucket, key = _bucket_and_key(path)
        fs = self._fs

        # s3fs's own cat_file asks for the size first: one request more for every commit.
        async def fetch() -> bytes:
            answer = await fs._call_s3("get_object", Bucket=bucket, Key=key, **arguments)
            async with answer["Body"] as body:
                return bytes(await body.read())

        return bytes(sync(fs.loop, fetch))

    def _created_by_us(
        self, path: str, create: Callable[[str], None], looks_ours: Callable[[], bool]
    ) -> None:
        writer = uuid.uuid4().hex

        def is_ours(in_doubt: bool) -> bool:  # noqa: FBT001
            found = self._head(path).get("Metadata", {}).get(_WRITER)
            return found == writer if found else in_doubt and looks_ours()

        self._created(path, lambda: create(writer), is_ours)

    def _upload(self, path: str, writer: str, parts: Callable[[dict[str, Any]], list[str]]) -> None:
        bucket, key = _bucket_and_key(path)
        call = self._fs.call_s3
        metadata = {_WRITER: writer}
        started = call("create_multipart_upload", Bucket=bucket, Key=key, Metadata=metadata)
        upload = {"Bucket": bucket, "Key": key, "UploadId": started["UploadId"]}
        try:
            tags = [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(parts(upload), 1)]
            finished = {"MultipartUpload": {"Parts": tags}, "IfNoneMatch": "*"}
            call("complete_multipart_upload", **upload, **finished)
        except BaseException:
            # The parts of an upload that nobody completes are paid for until it is aborted.
            with contextlib.suppress(Exception):
                call("abort_multipart_upload", **upload)
            raise

    def _send(self, path: str, data: bytes, upload: dict[str, Any]) -> list[str]:
        chunks = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        return [
            self._call(path, "upload_part", PartNumber=n, Body=chunk, **upload)["ETag"]
            for n, chunk in enumerate(chunks, 1)
        ]

    def _delete_batch(self, bucket: str, paths: list[str]) -> dict[str, str]:
        objects = [{"Key": _bucket_and_key(path)[1]} for path in paths]
        try:
            answer = self._call(
                paths[0],
                "delete_objects",
                Bucket=bucket,
                Delete={"Objects": objects, "Quiet": True},
            )
        except StorageError as error:
            return dict.fromkeys(paths, error.reason)
        return {
            f"{bucket}/{failure['Key']}": f"{failure['Code']}: {failure['Message']}"
            for failure in answer.get("Errors", ())
        }

    # --- what went wrong -----------------------------------------------------------------------

    def _is_transient(self, error: BaseException) -> bool:
        status = answer(error)[0]
        return super()._is_transient(error) if status is None else status in TRANSIENT_STATUS

    def _is_conflict(self, error: BaseException) -> bool:
        return answer(error)[0] == CONFLICT_STATUS

    def _refusal(self, error: BaseException) -> str | None:
        return refusal(error) or super()._refusal(error)


def _bucket_and_key(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


def _just_before(name: str) -> str:
    # S3 starts strictly after a key, and `name` itself is wanted: step back by one code point.
    # What lies between is dropped by the caller.
    return name[:-1] + (chr(ord(name[-1]) - 1) + "\U0010ffff" if name[-1] > "\x01" else "")
