"""The public names of `moot.prompts`, the only list of them: documentation and tests are generated from it."""

from ._files import as_data as as_data
from ._files import fill as fill
from ._files import load as load
