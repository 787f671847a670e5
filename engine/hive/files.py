"""The one door to the file system: Hadoop's, as the Spark session is configured for it.

A local disk is spoken to directly, see `local`.

Nothing here decides anything. Every method is one act; `rename` never nests and never replaces,
and `write_new` never overwrites.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from engine.errors import AlreadyExistsError, StorageError
from engine.hive import local
from engine.hive.layout import last
from engine.hive.model import FileEntry, Listing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

# Schemes whose directory rename is one atomic step of the name space.
_ATOMIC_RENAME: Final = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs"})
# One step only where the account has a hierarchical name space, and only its settings say so.
_AZURE: Final = frozenset({"abfs", "abfss"})
_HIERARCHICAL: Final = "fs.azure.account.hns.enabled"
# Hadoop takes these as bare booleans.
_RECURSIVE: Final = True
_ONLY_EMPTY: Final = False
_REPLACE: Final = True
_ONLY_NEW: Final = False
_PRIVATE: Final = 0o700
_STATUS: Final = re.compile(
    r"path=(?P<path>[^\n]*?); isDirectory=(?P<folder>true|false);"
    r"(?: length=(?P<size>\d+); replication=\d+; blocksize=\d+;)? modification_time=(?P<time>\d+);"
)


class Files:
    """Files and directories by their full path, `scheme:/…`."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm, self._gateway = context._jvm, context._gateway
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._contexts: dict[str, Any] = {}
        kind: Any = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        self._no_replace: Any = self._gateway.new_array(kind, 1)
        self._no_replace[0] = kind.NONE

    def qualify(self, path: str) -> str:
        """Return `path` with its scheme, as this file system spells it."""
        return str(self._fs(path).makeQualified(self._path(path)).toString())

    def renames_atomically(self, path: str) -> bool:
        """Say whether a directory rename is one atomic step there."""
        scheme, _, rest = path.partition("://")
        if scheme in _AZURE:
            account = rest.partition("/")[0].rpartition("@")[2]
            own = self._conf.get(f"{_HIERARCHICAL}.{account}", None)
            return str(own or self._conf.get(_HIERARCHICAL, "")).lower() == "true"
        return path.partition(":")[0] in _ATOMIC_RENAME

    def exists(self, path: str) -> bool:
        """Say whether there is anything at `path`."""
        if _is_local(path):
            return local.path_of(path).exists()
        return bool(self._fs(path).exists(self._path(path)))

    def listing(self, path: str) -> Listing | None:
        """Return what a directory holds, or None when it does not exist."""
        found = self._statuses(path)
        if found is None:
            return None
        files: list[FileEntry] = []
        folders: list[str] = []
        hidden: list[tuple[str, int]] = []
        marked = False
        for name, is_folder, size, modified in found:
            if name.startswith(("_", ".")):
                marked = marked or name == "_SUCCESS"
                if is_folder:
                    hidden.append((name, modified))
            elif is_folder:
                folders.append(name)
            else:
                files.append(FileEntry(name, size, modified))
        return Listing(tuple(sorted(files)), tuple(sorted(folders)), tuple(sorted(hidden)), marked)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, hidden ones included; none when it does not exist."""
        return tuple(sorted(name for name, *_ in self._statuses(path) or ()))

    def mkdirs(self, path: str) -> None:
        """Make a directory and those above it."""
        if _is_local(path):
            local.path_of(path).mkdir(parents=True, exist_ok=True)
        elif not self._fs(path).mkdirs(self._path(path)):
            raise StorageError(path, "the directory could not be made")

    def make_private(self, path: str) -> None:
        """Make a directory that nobody but its owner may enter."""
        self.mkdirs(path)
        if _is_local(path):
            local.path_of(path).chmod(_PRIVATE)
        else:
            kind: Any = self._jvm.org.apache.hadoop.fs.permission.FsPermission
            self._fs(path).setPermission(self._path(path), kind(f"{_PRIVATE:o}"))

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory.

        Raises:
            AlreadyExistsError: there is something at `target`; nothing was moved.
        """
        if _is_local(source):
            local.rename(local.path_of(source), local.path_of(target))
            return
        try:
            self._context(source).rename(self._path(source), self._path(target), self._no_replace)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in str(error.java_exception.getClass().getName()):
                raise AlreadyExistsError(target) from error
            raise

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all it holds; nothing there is no error."""
        if _is_local(path):
            local.delete(local.path_of(path))
        else:
            self._fs(path).delete(self._path(path), _RECURSIVE)

    def delete_empty(self, path: str) -> bool:
        """Delete a directory that holds nothing; say whether it is gone.

        One that a writer fills at this moment stays.
        """
        if _is_local(path):
            return local.delete_empty(local.path_of(path))
        if self.names(path):
            return False
        try:
            self._fs(path).delete(self._path(path), _ONLY_EMPTY)
        except Py4JJavaError as error:
            if "NotEmpty" in str(error.java_exception.getClass().getName()):
                return False
            raise
        return True

    def write_new(self, path: str, text: str) -> None:
        """Write a file that must not exist yet, whole or not at all where the storage can.

        Raises:
            AlreadyExistsError: it exists.
        """
        if _is_local(path):
            local.write_new(local.path_of(path), text)
            return
        builder = self._fs(path).createFile(self._path(path)).overwrite(_ONLY_NEW).recursive()
        # Object stores check and create in one request only when asked to.
        builder = builder.opt("fs.option.create.conditional.overwrite", "true")
        try:
            self._pour(builder.build(), text)
        except Py4JJavaError as error:
            if "AlreadyExists" in str(error.java_exception.getClass().getName()):
                raise AlreadyExistsError(path) from error
            raise

    def write(self, path: str, text: str) -> None:
        """Write a file, over an older one if there is one."""
        if _is_local(path):
            local.path_of(path).write_text(text)
            return
        self._pour(self._fs(path).create(self._path(path), _REPLACE), text)

    def read(self, path: str) -> str:
        """Return a small text file."""
        if _is_local(path):
            return local.path_of(path).read_text()
        stream = self._fs(path).open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def copy_access(
        self, source: str, target: str, names: Iterable[str] = (), like: str = ""
    ) -> str:
        """Give `target` the mode, owner and ACL of `source`, and its files those of `like`.

        Returns a warning when the owner could not be kept, else nothing.
        """
        if _is_local(target):
            place, model = local.path_of(source), local.path_of(target)
            return local.copy_access(place, model, names, like)
        fs = self._fs(target)
        warning = self._grant(fs, self._path(source), self._path(target))
        model = self._path(f"{source}/{like}")
        for name in names:
            warning = self._grant(fs, model, self._path(f"{target}/{name}")) or warning
        return warning

    def _grant(self, fs: Any, source: Any, target: Any) -> str:
        wanted, found = fs.getFileStatus(source), fs.getFileStatus(target)
        warning = ""
        if (wanted.getOwner(), wanted.getGroup()) != (found.getOwner(), found.getGroup()):
            try:
                fs.setOwner(target, wanted.getOwner(), wanted.getGroup())
            except Py4JJavaError:
                warning = f"could not keep owner {wanted.getOwner()}:{wanted.getGroup()}"
        fs.setPermission(target, wanted.getPermission())
        if wanted.hasAcl():
            # A status leaves out the entries that the mode already says; setAcl wants them all.
            entries = fs.getAclStatus(source).getEntries()
            whole = self._jvm.org.apache.hadoop.fs.permission.AclUtil.getAclFromPermAndEntries
            fs.setAcl(target, whole(wanted.getPermission(), entries))
        elif found.hasAcl():
            fs.removeAcl(target)
        return warning

    def _statuses(self, path: str) -> list[tuple[str, bool, int, int]] | None:
        if _is_local(path):
            return local.statuses(local.path_of(path))
        # One call brings the whole directory as text: a call for each field of each file would
        # cost a millisecond a file.
        try:
            found = self._fs(path).listStatus(self._path(path))
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception.getClass().getName()):
                return None
            raise
        count = len(found)
        plain = self._gateway.new_array(self._jvm.java.lang.Object, count)
        self._jvm.java.lang.System.arraycopy(found, 0, plain, 0, count)
        text = str(self._jvm.java.util.Arrays.toString(plain))
        parsed = [
            (
                last(match["path"]),
                match["folder"] == "true",
                int(match["size"] or 0),
                int(match["time"]),
            )
            for match in _STATUS.finditer(text)
        ]
        if len(parsed) == count:
            return parsed
        return [
            (
                str(status.getPath().getName()),
                bool(status.isDirectory()),
                int(status.getLen()),
                int(status.getModificationTime()),
            )
            for status in found
        ]

    def _pour(self, stream: Any, text: str) -> None:
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _fs(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf)

    def _context(self, path: str) -> Any:
        where = path.split("/", 3)[:3] if "://" in path else path.partition(":")[0]
        key = str(where)
        if key not in self._contexts:
            self._contexts[key] = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                self._path(path).toUri(), self._conf
            )
        return self._contexts[key]

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def _is_local(path: str) -> bool:
    return path.startswith("file:")
