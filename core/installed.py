"""Graphs, sources and benchmarks of installed packages, which declare them as entry points."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

from moot.core.errors import USER_KINDS, UserError, copy_error
from moot.core.redaction import redact

LONGEST = 200
"""Characters of an exception's text in an error."""


class Installed:
    """What packages declare for one kind of thing, in the entry points of the group ``moot.KINDs``.

    They are listed when the object is made, as this reads files, and imported when they are first used. An entry point
    that cannot be used is an error only for those who use it; the error is remembered until the process ends.

    Args:
        kind: graph, source or benchmark.
        own: moot's own names, which no package may take.
        error: the kind of the errors.
    """

    def __init__(self, kind: str, own: Collection[str], error: str) -> None:
        if error not in USER_KINDS:
            raise ValueError(f"{error!r} is not listed among the kinds of users' errors")
        self._kind, self._own, self._error = kind, own, error
        self._points: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=f"moot.{kind}s"):
            self._points.setdefault(point.name, []).append(point)
        self._loaded: dict[str, Any] = {}

    def names(self) -> list[str]:
        """The names that packages declare and moot does not have itself, in alphabetical order; imports nothing."""
        return sorted(self._points.keys() - set(self._own))

    def declares(self) -> bool:
        """Whether any package declares anything."""
        return bool(self._points)

    def taken(self) -> list[str]:
        """The names of moot's own that a package declares, too."""
        return sorted(self._points.keys() & set(self._own))

    def check(self, name: str) -> None:
        """Refuses a name that stands for several things, or that cannot be written where names are.

        Raises:
            UserError: a package declares a name of moot's own, two packages declare the same, or it is no name.
        """
        points = self._points.get(name, [])
        if points and name in self._own:
            raise self._wrong(points[0], f"{name} is one of moot's own. Rename the entry point")
        if len(points) > 1:
            others = ", ".join(package_of(point) for point in points[1:])
            raise self._wrong(points[0], f"so does {others}. Rename one of them, or uninstall a package")
        if points and not name.isidentifier():
            raise self._wrong(points[0], "a name has letters, digits and underscores only. Rename the entry point")

    def point(self, name: str) -> EntryPoint:
        """The entry point of a name that a package declares."""
        return self._points[name][0]

    def load(self, name: str) -> Any:
        """The object that a package declares under that name. Blocking when it is first loaded.

        Raises:
            UserError: the name cannot be used (`check`), or its module cannot be imported.
        """
        self.check(name)
        if name not in self._loaded:
            try:
                self._loaded[name] = self._import(name)
            except UserError as error:
                self._loaded[name] = error
        if isinstance(found := self._loaded[name], UserError):
            raise copy_error(found)
        return found

    def _import(self, name: str) -> Any:
        from moot.core.lazy import imported  # not at the top: it imports numpy, and listings shall be quick

        point = self.point(name)
        try:
            return attrgetter(point.attr)(imported(point.module))
        except (Exception, SystemExit) as error:
            raise self.wrong(name, f"it cannot be imported ({type(error).__name__}: {error})") from error

    def wrong(self, name: str, why: str) -> UserError:
        """The error for something that a package declares and that cannot be used, with the package and entry point."""
        return self._wrong(self.point(name), why)

    def _wrong(self, point: EntryPoint, why: str) -> UserError:
        said = f'The package {package_of(point)} declares the {self._kind} {point.name} = "{point.value}"'
        return UserError(f"{said}, but {redact(why)[:LONGEST]}.", kind=self._error)

    def version(self, name: str) -> str:
        """The package of something that is declared, its version, and a digest of its code.

        The digest is of all Python files and prompts of the package, as code changes while its version does not.
        """
        point = self.point(name)
        spec = find_spec(point.module.partition(".")[0])
        folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
        files = sorted(file for folder in folders for end in ("py", "md") for file in folder.rglob(f"*.{end}"))
        if spec and not folders and spec.origin:
            files = [Path(spec.origin)]
        digest = hashlib.sha256()
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        return f"{package_of(point)} {digest.hexdigest()[:16]}"


def package_of(point: EntryPoint) -> str:
    """The package that declares an entry point, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "of an unknown name"
