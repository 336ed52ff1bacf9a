"""Exports moot's error classes for authors of sources."""

from moot.core.errors import MootError as MootError
from moot.core.errors import ReplyError as ReplyError
from moot.core.errors import UserError as UserError
from moot.core.errors import WorldError as WorldError
