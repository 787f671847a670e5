"""The acts of `files` on a local disk, where the kernel does better than Hadoop's emulation.

Hadoop without its native library starts a process for a rename and looks before it renames; here a
rename that must not replace is one system call. Checksum files that Hadoop keeps beside a file go
where the file goes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.errors import AlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOREPLACE: Final = 1
_HERE: Final = -100
_ACLS: Final = ("system.posix_acl_access", "system.posix_acl_default")


def path_of(uri: str) -> Path:
    """Return the path of a `file:` URI as Hadoop prints it, unescaped."""
    text = uri.removeprefix("file:")
    return Path(text.removeprefix("//") if text.startswith("///") else text)


def statuses(folder: Path) -> list[tuple[str, bool, int, int]] | None:
    """Return name, whether it is a directory, size and modification time of what a folder holds."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") and entry.name.endswith(".crc"):
                    continue
                # Gone between the listing and the look: as good as never seen.
                with contextlib.suppress(FileNotFoundError):
                    stat = entry.stat()
                    modified = stat.st_mtime_ns // 1_000_000
                    found.append((entry.name, entry.is_dir(), stat.st_size, modified))
    except FileNotFoundError:
        return None
    return found


def rename(source: Path, target: Path) -> None:
    """Rename; AlreadyExistsError when there is something at `target`."""
    sidecar = checksum(source)
    _rename_new(source, target)
    if sidecar.exists():
        sidecar.replace(checksum(target))


def delete(path: Path) -> None:
    """Delete a file with its checksum, or a directory with all it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
        return
    path.unlink(missing_ok=True)
    checksum(path).unlink(missing_ok=True)


def delete_empty(path: Path) -> bool:
    """Delete a directory in which there are no files; say whether it is gone."""
    if not path.exists():
        return True
    if statuses(path):
        return False
    # A checksum whose file went elsewhere without it.
    for orphan in path.glob(".*.crc"):
        orphan.unlink(missing_ok=True)
    try:
        path.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def write_new(target: Path, text: str) -> None:
    """Write a file that must not exist yet, whole and on the disk, or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    with draft.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        target.hardlink_to(draft)
    except FileExistsError as error:
        raise AlreadyExistsError(str(target)) from error
    finally:
        draft.unlink()


def copy_access(source: Path, target: Path, names: Iterable[str], like: str) -> str:
    """Give a directory the access of another, and its files that of one file there."""
    warning = _grant(source, target)
    for name in names:
        warning = _grant(source / like, target / name) or warning
    return warning


def checksum(path: Path) -> Path:
    """Return where Hadoop keeps the checksum of a file."""
    return path.with_name(f".{path.name}.crc")


def _grant(source: Path, target: Path) -> str:
    wanted, found = source.stat(), target.stat()
    warning = ""
    if (wanted.st_uid, wanted.st_gid) != (found.st_uid, found.st_gid):
        try:
            os.chown(target, wanted.st_uid, wanted.st_gid)
        except PermissionError:
            warning = f"could not keep owner {wanted.st_uid}:{wanted.st_gid}"
    for name in _ACLS:
        _copy_acl(source, target, name)
    target.chmod(wanted.st_mode & 0o7777)
    return warning


def _copy_acl(source: Path, target: Path, name: str) -> None:
    try:
        acl = os.getxattr(source, name)
    except OSError:
        # The source has none; the target may have inherited one that would let others in.
        with contextlib.suppress(OSError):
            os.removexattr(target, name)
        return
    os.setxattr(target, name, acl)


def _rename_new(source: Path, target: Path) -> None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        done = call(_HERE, os.fsencode(source), _HERE, os.fsencode(target), _NOREPLACE)
        code = 0 if done == 0 else ctypes.get_errno()
        if code == 0:
            return
        if code == errno.EEXIST:
            raise AlreadyExistsError(str(target))
        if code not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(code, os.strerror(code), str(source), None, str(target))
    # A kernel or a file system without the call: look, then rename.
    if target.exists():
        raise AlreadyExistsError(str(target))
    source.rename(target)
