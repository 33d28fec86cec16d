"""Atomic writes: a file is replaced in one step or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a temporary file beside ``path``, which then takes its place.

    If the body fails, the temporary file is removed and ``path`` stays as it was. The new file has
    the permissions of the one it replaces, or those of any newly created file.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "greeting.txt")
    ...     with replacing(path) as temporary, open(temporary, "w") as file:
    ...         _ = file.write("hello")
    ...     os.listdir(folder)
    ['greeting.txt']
    """
    target = check_target(path)
    old = target if target.exists() else None
    temporary = _created(target.parent, private=old is not None)
    mode = stat.S_IMODE(os.stat(old or temporary).st_mode)
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, mode)  # the body may have put another file in its place
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _keep_name(target.parent)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the real path of a file to be written, or say why it cannot be: before any work."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; a file name is needed")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{os.fspath(path)} is not an ordinary file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"the folder {target.parent} may not be written to")
    return target


def _created(folder: Path, *, private: bool) -> str:
    """Create an empty file of a new name; the system itself applies the process's umask."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    while True:
        name = str(folder / f".mercer-{secrets.token_hex(8)}.part")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(name, flags, 0o600 if private else 0o666))
            return name


def _keep_name(folder: Path) -> None:
    """Make the new name itself survive a crash, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
