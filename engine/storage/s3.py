"""Where are the bytes on S3? Lists that start late, writes that never overwrite."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final

import aiohttp
import s3fs
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from fsspec.asyn import sync

from engine.config import MAX_CONCURRENT_READS, READ_TIMEOUT_SECONDS
from engine.errors import StorageError
from engine.storage import FileInfo
from engine.storage.remote import RemoteStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Who wrote an object, as metadata on it: tells our write, its answer lost, from another's.
_WRITER: Final = "txlog-writer"

# Names that users of deltalake and of Hadoop know -> s3fs's.
_OPTION_NAMES: Final = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "aws_endpoint_url": "endpoint_url",
    "aws_region": "region",
    "aws_default_region": "region",
    "fs.s3a.access.key": "key",
    "fs.s3a.secret.key": "secret",
    "fs.s3a.session.token": "token",
    "fs.s3a.endpoint": "endpoint_url",
    "fs.s3a.endpoint.region": "region",
}
_TRANSIENT_STATUS: Final = {408, 409, 429, 500, 502, 503, 504}
_CONFLICT_STATUS: Final = 412

_NO_CREDENTIALS: Final = (
    "no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or AWS_PROFILE, or run where a role is attached"
)
_DENIED: Final = (
    "access denied; the credentials in use need s3:ListBucket on the bucket and "
    "s3:GetObject (to write, s3:PutObject) on its objects"
)
_NOT_VALID: Final = "the AWS credentials are not valid or have expired; renew them and try again"
_ELSEWHERE: Final = "the bucket is in another region; set AWS_REGION to it"
_REFUSALS: Final = {
    "NoSuchBucket": "no such bucket; check its name and the endpoint",
    "AccessDenied": _DENIED,
    "AllAccessDisabled": _DENIED,
    "403": _DENIED,
    "InvalidAccessKeyId": _NOT_VALID,
    "SignatureDoesNotMatch": _NOT_VALID,
    "ExpiredToken": _NOT_VALID,
    "InvalidToken": _NOT_VALID,
    "PermanentRedirect": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "301": _ELSEWHERE,
    "NotImplemented": "this S3 store has no conditional writes, and so no safe way to add files",
}


class _OneTry(s3fs.S3FileSystem):  # type: ignore[misc]
    # Retries are ours: one hidden inside s3fs could repeat a write that had landed.
    retries = 1


class S3Storage(RemoteStorage):
    """S3 and what speaks its protocol."""

    transient: ClassVar[tuple[type[BaseException], ...]] = (
        *RemoteStorage.transient,
        boto.HTTPClientError,
        boto.IncompleteReadError,
        ResponseParserError,
        aiohttp.ClientError,
    )

    def root(self, path: str) -> str:
        """Return `bucket/key`."""
        if not path.strip("/") or path.startswith("/"):
            raise StorageError(self.url(path), "no bucket is named; write s3://bucket/path")
        return path.rstrip("/")

    def list_from(self, directory: str, name: str = "") -> list[FileInfo]:
        """Return the files of `directory` from `name` on; what sorts before is never listed."""
        bucket, prefix = _bucket_and_key(directory + "/")
        return [
            FileInfo(
                f"{bucket}/{found['Key']}",
                found["Size"],
                round(found["LastModified"].timestamp() * 1000),
            )
            for page in self._pages(directory, name)
            for found in page.get("Contents", ())
            if found["Key"][len(prefix) :] >= (name or "\0")
        ]

    def list_directories(self, directory: str, name: str = "") -> list[str]:
        """Return the common prefixes of `directory` from `name` on."""
        _, prefix = _bucket_and_key(directory + "/")
        names = (
            found["Prefix"][len(prefix) : -1]
            for page in self._pages(directory, name)
            for found in page.get("CommonPrefixes", ())
        )
        return [found for found in names if found and found >= name]

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

    def write_new(self, path: str, data: bytes) -> None:
        """Write by a request that S3 refuses when the key exists."""

        def create(writer: str) -> None:
            self._fs.pipe_file(path, data, mode="create", Metadata={_WRITER: writer})

        self._created_by_us(path, create, lambda: self.read(path) == data)

    def publish(self, staged: str, final: str) -> None:
        """Copy inside S3, then drop the staged object."""
        # A multipart upload of one copied part: unlike CopyObject, every store that knows
        # conditional writes refuses its last step when the key exists.
        bucket, key = _bucket_and_key(final)

        def create(writer: str) -> None:
            call = self._fs.call_s3
            started = call(
                "create_multipart_upload", Bucket=bucket, Key=key, Metadata={_WRITER: writer}
            )
            upload = {"Bucket": bucket, "Key": key, "UploadId": started["UploadId"]}
            try:
                part = call("upload_part_copy", PartNumber=1, CopySource=staged, **upload)
                parts = [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]
                call(
                    "complete_multipart_upload",
                    MultipartUpload={"Parts": parts},
                    IfNoneMatch="*",
                    **upload,
                )
            except BaseException:
                self._forget(upload)
                raise

        self._created_by_us(final, create, lambda: False)
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
        timeout = self.config[READ_TIMEOUT_SECONDS]
        options = {"client_kwargs": {}, "config_kwargs": {}, **_named_as_s3fs(self.options)}
        if region := options.pop("region", None):
            options["client_kwargs"] = {"region_name": region, **options["client_kwargs"]}
        options["config_kwargs"] = {
            "connect_timeout": min(timeout, 10),
            "read_timeout": timeout,
            "max_pool_connections": self.config[MAX_CONCURRENT_READS],
            **options["config_kwargs"],
            "retries": {"total_max_attempts": 1, "mode": "standard"},
        }
        return _OneTry(use_listings_cache=False, **options)

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

    def _forget(self, upload: dict[str, Any]) -> None:
        # The parts of an upload that nobody completes are paid for until they are aborted.
        with contextlib.suppress(Exception):
            self._fs.call_s3("abort_multipart_upload", **upload)

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
        status, code = _answer(error)
        if status is not None:
            return status in _TRANSIENT_STATUS or code == "SlowDown"
        return super()._is_transient(error)

    def _is_conflict(self, error: BaseException) -> bool:
        return _answer(error)[0] == _CONFLICT_STATUS

    def _refusal(self, error: BaseException) -> str | None:
        if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
            return _NO_CREDENTIALS
        return _REFUSALS.get(_answer(error)[1]) or super()._refusal(error)


def _bucket_and_key(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


def _just_before(name: str) -> str:
    # S3 starts strictly after a key, and `name` itself is wanted: step back by one code point.
    # What lies between is dropped by the caller.
    return name[:-1] + (chr(ord(name[-1]) - 1) + "\U0010ffff" if name[-1] > "\x01" else "")


def _answer(error: BaseException) -> tuple[int | None, str]:
    """Return the HTTP status and S3's code, where the server answered at all."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    if not isinstance(response, dict):
        return None, ""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status, str(response.get("Error", {}).get("Code", ""))


def _named_as_s3fs(options: Any) -> dict[str, Any]:
    named = {}
    for name, value in options.items():
        plain = name.removeprefix("spark.hadoop.")
        named[_OPTION_NAMES.get(plain.lower(), plain)] = value
    endpoint = named.get("endpoint_url")
    if endpoint and "://" not in endpoint:
        named["endpoint_url"] = f"https://{endpoint}"
    return named
