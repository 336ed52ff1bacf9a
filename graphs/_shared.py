"""Public names of `moot.graphs` that are defined in other packages of moot."""

from moot.nodes._models.budget import shared_ceilings as shared_ceilings
