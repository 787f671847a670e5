"""Which options does S3 take, and under whose names? Those of s3fs, of deltalake and of Hadoop."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any, Final

import s3fs
from botocore.session import Session

from engine.config import parse_boolean
from engine.errors import StorageError

# Names that users of deltalake, of boto and of Hadoop know -> s3fs's.
_OPTION_NAMES: Final = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "endpoint": "endpoint_url",
    "region_name": "region",
    "default_region": "region",
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "aws_endpoint": "endpoint_url",
    "aws_endpoint_url": "endpoint_url",
    "aws_region": "region",
    "aws_default_region": "region",
    "fs.s3a.access.key": "key",
    "fs.s3a.secret.key": "secret",
    "fs.s3a.session.token": "token",
    "fs.s3a.endpoint": "endpoint_url",
    "fs.s3a.endpoint.region": "region",
}
_TABLES: Final = ("client_kwargs", "config_kwargs", "s3_additional_kwargs")
_TOLD: Final = "key, secret, token, endpoint_url, region, profile, anon, use_ssl"


def named_as_s3fs(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by s3fs's names, beside them `region`; a text becomes a boolean or a number.

    Names of other tools that mean nothing here are left out. Raises StorageError for a name that
    nobody has, without its value, which may be a secret.
    """
    known = _known()
    named = {}
    for name, value in options.items():
        plain = name.removeprefix("spark.hadoop.")
        own = _OPTION_NAMES.get(plain.lower(), plain)
        if own.lower().startswith(("aws_", "fs.s3a.")):
            continue
        if own not in known:
            raise StorageError("s3://", _unknown(name, {*known, *_OPTION_NAMES}))
        named[own] = _typed(own, value, known[own])
    endpoint = named.get("endpoint_url")
    if endpoint and "://" not in endpoint:
        named["endpoint_url"] = f"https://{endpoint}"
    return named


def _known() -> dict[str, Any]:
    """Return every name that s3fs takes, and its default. Some it hands on to the session."""
    found: dict[str, Any] = dict.fromkeys(("region", "use_listings_cache", "skip_instance_cache"))
    for taker in (Session, s3fs.S3FileSystem):
        for parameter in list(inspect.signature(taker.__init__).parameters.values())[1:]:
            if parameter.kind is not parameter.VAR_KEYWORD:
                found[parameter.name] = parameter.default
    return found


def _typed(name: str, value: Any, default: Any) -> Any:
    if name in _TABLES and not isinstance(value, Mapping):
        raise StorageError("s3://", f"the storage option {name} is a table of options, not a text")
    if not isinstance(value, str):
        return value
    try:
        if isinstance(default, bool):
            return parse_boolean(value)
        return int(value) if isinstance(default, int) else value
    except ValueError:
        kind = "true or false" if isinstance(default, bool) else "a whole number"
        raise StorageError("s3://", f"the storage option {name} must be {kind}") from None


def _unknown(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name.lower(), sorted(known), n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"there is no storage option {name}{meant}; among them are {_TOLD}"
