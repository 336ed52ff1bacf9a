"""The folder in which moot stores corpora, debates and the ledger of calls."""

from __future__ import annotations

import os
from pathlib import Path


def moot_home() -> Path:
    """The folder ``$MOOT_HOME`` or, if the variable is unset or empty, moot's folder among the user's data.

    The folder need not exist.
    """
    home = os.environ.get("MOOT_HOME")
    if home:
        return Path(home)
    from platformdirs import user_data_path

    return user_data_path("moot")
