"""The only list of the public names of `moot.graphs`; the documentation and tests are based on it."""

from ._registry import DESCRIPTIONS as DESCRIPTIONS
from ._registry import DebateSystem as DebateSystem
from ._registry import load_graph as load_graph
from ._shared import shared_ceilings as shared_ceilings
from .proclaim.court import discovery_graph as discovery_graph
from .proclaim.court import expert_graph as expert_graph
from .proclaim.negotiation import negotiation_graph as negotiation_graph
from .proclaim.panel import panel_graph as panel_graph
