"""The only list of the public names of `moot.prompts`; the documentation and tests are based on it."""

from ._files import as_data as as_data
from ._files import fill as fill
from ._files import load as load
