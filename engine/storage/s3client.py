"""How is S3 reached, and what do its answers mean? Options, the client, words for refusals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import s3fs
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from engine.storage.s3options import named_as_s3fs

if TYPE_CHECKING:
    from collections.abc import Mapping

# Failures that say nothing about whether the request was carried out.
TRANSIENT: Final = (
    boto.HTTPClientError,
    boto.ConnectionError,
    boto.IncompleteReadError,
    ResponseParserError,
    aiohttp.ClientError,
)
TRANSIENT_STATUS: Final = {408, 409, 429, 500, 502, 503, 504}
CONFLICT_STATUS: Final = 412

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

# A client takes longer to build than a small log to read; an executor opens one for every task.
_CLIENTS: Final[dict[str, Any]] = {}


class _OneTry(s3fs.S3FileSystem):  # type: ignore[misc]
    # Retries are ours: one hidden inside s3fs could repeat a write that had landed.
    retries = 1


def client(options: Mapping[str, Any], timeout_seconds: int, concurrency: int) -> Any:
    """Return an s3fs file system that tries once, built or known from before.

    Raises StorageError for options that there are not.
    """
    named = {"client_kwargs": {}, "config_kwargs": {}, **named_as_s3fs(options)}
    if region := named.pop("region", None):
        named["client_kwargs"] = {"region_name": region, **named["client_kwargs"]}
    named["config_kwargs"] = {
        "connect_timeout": min(timeout_seconds, 10),
        "read_timeout": timeout_seconds,
        "max_pool_connections": concurrency,
        **named["config_kwargs"],
        "retries": {"total_max_attempts": 1, "mode": "standard"},
    }
    # Credentials and endpoint may come from the environment, and change with it.
    environment = [item for item in os.environ.items() if item[0].startswith("AWS_")]
    key = repr((os.getpid(), sorted(environment), sorted(named.items(), key=str)))
    if key not in _CLIENTS:
        _CLIENTS[key] = _OneTry(skip_instance_cache=True, use_listings_cache=False, **named)
    return _CLIENTS[key]


def answer(error: BaseException) -> tuple[int | None, str]:
    """Return the HTTP status and S3's code, where the server answered at all."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    if not isinstance(response, dict):
        return None, ""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status, str(response.get("Error", {}).get("Code", ""))


def refusal(error: BaseException) -> str | None:
    """Return what the user can do about `error`, or None where only S3's own words are known."""
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
        return _NO_CREDENTIALS
    return _REFUSALS.get(answer(error)[1])
