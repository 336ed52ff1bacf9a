"""Plugins: graphs, sources and benchmarks that installed packages declare as entry points."""

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

LONGEST_REASON = 200
"""Maximum number of characters of the reason in an error's text; a longer reason is cut."""


class Plugins:
    """The plugins of one kind: entry points of installed packages in one group, such as ``moot.graphs``."""

    def __init__(self, kind: str, own: Collection[str], error: str) -> None:
        if error not in USER_KINDS:
            raise ValueError(f"{error!r} is not in USER_KINDS")
        self._kind, self._own, self._error = kind, own, error
        self._points: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=f"moot.{kind}s"):
            self._points.setdefault(point.name, []).append(point)
        self._loaded: dict[str, Any] = {}

    def names(self) -> list[str]:
        """The names that packages declare, without moot's own, in alphabetical order; no plugin is imported."""
        return sorted(self._points.keys() - set(self._own))

    def conflicts(self) -> list[str]:
        """moot's own names that a package also declares, in alphabetical order."""
        return sorted(self._points.keys() & set(self._own))

    def check(self, name: str) -> None:
        """Refuses a name that packages declare, if it is moot's own, no identifier, or declared by several of them."""
        points = self._points.get(name, [])
        if points and name in self._own:
            raise self._point_error(points[0], f"moot has its own {name}. Rename the entry point")
        if len(points) > 1:
            others = ", ".join(package_of(point) for point in points[1:])
            problem = f"the package {others} declares the same name. Rename an entry point, or uninstall a package"
            raise self._point_error(points[0], problem)
        if points and not name.isidentifier():
            allowed = "a name may contain only letters, digits and underscores, and must not begin with a digit"
            raise self._point_error(points[0], f"{allowed}. Rename the entry point")

    def entry_point(self, name: str) -> EntryPoint:
        """The entry point with this name, of the first package if several declare it; a KeyError if none does."""
        return self._points[name][0]

    def load(self, name: str) -> Any:
        """The object that a package declares under this name, imported on first use; blocking."""
        self.check(name)
        if name not in self._loaded:
            try:
                self._loaded[name] = self._import(name)
            except UserError as error:
                # A failed import is not repeated.
                self._loaded[name] = error
        if isinstance(found := self._loaded[name], UserError):
            raise copy_error(found)
        return found

    def _import(self, name: str) -> Any:
        from moot.core.lazy import imported  # not at the top: moot.core.lazy imports numpy, which slows down listings

        point = self.entry_point(name)
        try:
            return attrgetter(point.attr)(imported(point.module))
        except (Exception, SystemExit) as error:
            raise self.error(name, f"it cannot be imported ({type(error).__name__}: {error})") from error

    def error(self, name: str, why: str) -> UserError:
        """The error for a plugin that cannot be used; ``why`` is a clause that follows the word "but"."""
        return self._point_error(self.entry_point(name), why)

    def _point_error(self, point: EntryPoint, why: str) -> UserError:
        text = f'The package {package_of(point)} declares the {self._kind} {point.name} = "{point.value}"'
        return UserError(f"{text}, but {redact(why)[:LONGEST_REASON]}.", kind=self._error)

    def version(self, name: str) -> str:
        """A plugin's package, its version, and a digest of its code, which may change without a new version."""
        point = self.entry_point(name)
        spec = find_spec(point.module.partition(".")[0])
        folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
        # All Python and Markdown files of the top-level package; of a single module, its file.
        files = sorted(file for folder in folders for suffix in ("py", "md") for file in folder.rglob(f"*.{suffix}"))
        if spec and not folders and spec.origin:
            files = [Path(spec.origin)]
        digest = hashlib.sha256()
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        return f"{package_of(point)} {digest.hexdigest()[:16]}"


def package_of(point: EntryPoint) -> str:
    """The name and version of an entry point's package, or a text that can follow the words "The package"."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "of an unknown name"
