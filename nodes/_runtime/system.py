"""The builder of a debate system. It adds the parts that all systems have; a graph's file adds the other parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from moot.nodes._records.entries import Task
from moot.nodes._runtime.budget import Decision
from moot.nodes._runtime.graph import CLOSE, DebateGraph, plain_router
from moot.nodes._runtime.opening import Needs, close_node, open_node
from moot.nodes._runtime.settings import EvidenceSettings, Settings
from moot.nodes._runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes._steps.person import human_review_node, question_or, remark_first
from moot.nodes._steps.robustness import robustness_node
from moot.nodes._texts.outage import every_search_failed
from moot.retrievers._search import resolve

Next = Sequence[Send | str] | Send | str
"""The next step of a debate: a node's name, a `Send` to one speaker, or a list of these."""
Router = Callable[..., Next]
"""Takes the state and, optionally, the settings or LangGraph's ``runtime``; returns the next step of a debate."""
REMARK, REVIEW, ROBUSTNESS = "human_remark", "human_review", "robustness"


class Debate(DebateGraph):
    """A debate system.

    It checks the input first and ends with a result document, even after a `MootError`. The setting ``ask_person``
    names the moments at which a person is asked: ``remark``, before each round except the first (see `rounds`), and
    ``verdict``, when there is a draft of the verdict (see `verdict_from`). If the settings are `EvidenceSettings`, and
    ``robustness`` is on, the deciding step is repeated after the verdict.

        builder = Debate("ring", RoundsSettings, agents_needs)
        builder.add_node("answer", agent_node())
        builder.add_node("compare_answers", compare_node())
        builder.add_node("vote", vote_node(consensus_or_rounds))
        builder.begin(another_round, ["answer"])
        builder.rounds(another_round, ["answer"])
        builder.add_edge("answer", "compare_answers")
        builder.add_conditional_edges("compare_answers", another_round, ["answer", "vote"])
        builder.verdict_from("vote")
        graph = builder.compile(name="Ring")

    Args:
        name: the system's name.
        settings: the class of its settings.
        needs: takes the settings; returns the resources of a debate, which are opened before the first call.
        check: takes the settings and the task; raises `UserError` if the system cannot handle the task.
    """

    def __init__(
        self,
        name: str,
        settings: type[Settings],
        needs: Callable[[Any], Needs] = lambda settings: Needs(),
        check: Callable[[Any, Task], None] = lambda settings, task: None,
    ) -> None:
        super().__init__(settings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
        self.needs = needs
        self.check = check
        self._targets: set[str] = set()
        self._deciding: list[str] = []
        self._first_in_round: set[str] = set()
        self._decisions: dict[str, Callable[[Any], Mapping[str | None, Decision]]] = {}
        self.add_node("open", open_node(name, needs, check, self.deciders))
        self.add_edge(START, "open")
        self.add_node(CLOSE, close_node())
        self.add_edge(CLOSE, END)
        self._after = CLOSE
        if issubclass(settings, EvidenceSettings):
            self._after = ROBUSTNESS
            self.add_node(ROBUSTNESS, robustness_node())
            self.add_edge(ROBUSTNESS, CLOSE)

    def add_node(self, name: str, action: Any, **options: Any) -> Debate:  # type: ignore[override]
        """Adds a node like `DebateGraph.add_node`, and remembers the node's deciding calls for `deciders`."""
        if decides := getattr(action, "decides", None):
            self._decisions[name] = decides
        super().add_node(name, action, **options)
        return self

    def deciders(self, settings: Any, needs: Needs) -> dict[str, Decision]:
        """The smallest call of each role that decides the verdict, by the role's name.

        These roles speak in the nodes that were passed to `verdict_from`. If no role speaks there, the only role in the
        dict is the first agent, with the smallest call of the first node in which agents answer. The dict is empty if
        there is no such node or no agent.

        Args:
            settings: a debate's settings.
            needs: the debate's resources.
        """
        found = [self._decisions[node](settings) for node in self._deciding if node in self._decisions]
        judges = {role: decision for decisions in found for role, decision in decisions.items() if role}
        if judges or not needs.roles:
            return judges
        answers = (decisions_of(settings).get(None) for decisions_of in self._decisions.values())
        decision = next(filter(None, answers), None)
        return {next(iter(needs.roles)): decision} if decision else {}

    def must_end(self, state: Any, settings: Any) -> bool:
        """Whether the debate must end, because each of its sources was tried, and none could be searched.

        With untried sources, such as those of an inner debate, the debate continues.
        """
        if not every_search_failed(state["corpora"], state["evidence"]):
            return False
        tried = {resolve(reading["requested"], settings.corpus) for reading in state["corpora"]}
        return tried.issuperset(resolve(name, settings.corpus) for name in self.needs(settings).sources)

    def begin(self, route: Router, to: Sequence[str], *, after: str = "open", reviewed: str = "") -> None:
        """Adds the edge into the first round; no person is asked for a remark before this round.

        Args:
            route: the router.
            to: the nodes that the router may return.
            after: the node from which the edge leads.
            reviewed: a node between ``after`` and the router, at which a person may review the results of ``after``.
                Empty for no review.

        Raises:
            ValueError: the router is not a plain function, so only LangGraph can call it.
        """
        if reviewed:
            self.add_edge(after, reviewed)
        self._add_route(reviewed or after, route, to)

    def rounds(self, route: Router, to: Sequence[str]) -> None:
        """Names the first nodes of further rounds. Before these nodes, a person may be asked for a remark.

        Conditional edges that are added later and may lead to these nodes lead first to a node that asks for the
        remark.

        Args:
            route: the router into a round, after the remark.
            to: the first nodes of a round.

        Raises:
            ValueError: a conditional edge to one of the nodes was added earlier, and would skip the remark; or this
                method was called before; or the router is not a plain function, so only LangGraph can call it.
        """
        if passed := self._targets & set(to):
            raise ValueError(f"call rounds() before the edges that lead to {', '.join(sorted(passed))}")
        self._first_in_round = set(to)
        self.add_node(REMARK, human_review_node("remark"))
        self._add_route(REMARK, route, to)

    def verdict_from(self, node: str, *, reviewed: bool = False, again: str = "", phase: str | None = None) -> None:
        """Adds the edge from a node that decides the verdict to the end of the debate. There may be several such nodes.

        At most one of them may be ``reviewed``.

        Args:
            node: the node.
            reviewed: whether a person may question the draft of the verdict, which is then decided again.
            again: the node that decides again; by default, ``node``.
            phase: the phase in which a trial decides.

        Raises:
            ValueError: another node is reviewed already.
        """
        self._deciding.append(node)
        if not reviewed:
            self.add_edge(node, self._after)
            return
        self.add_node(REVIEW, human_review_node("verdict", phase=phase))
        self.add_edge(node, REVIEW)
        self._add_route(REVIEW, question_or(again or node, self._after), [again or node, self._after])

    def add_conditional_edges(  # type: ignore[override]
        self, source: str, path: Router, path_map: Sequence[str] | Mapping[Any, str] | None = None
    ) -> Debate:
        """Adds an edge that depends on the state and the settings.

        Args:
            source: the edge's start node.
            path: the router.
            path_map: the nodes that the router may return; the node ``close`` may be left out.

        Raises:
            ValueError: ``path_map`` is missing, empty or a mapping; or the router is not a plain function, so only
                LangGraph can call it.
        """
        if not path_map or isinstance(path_map, Mapping):
            raise ValueError(f"name the nodes that the router after {source!r} may lead to, in a list")
        to = list(path_map)
        self._targets |= set(to)
        if self._first_in_round & set(to):
            path, to = remark_first(path, REMARK, self._first_in_round), [REMARK, *to]
        self._add_route(source, path, to)
        return self

    def _add_route(self, source: str, route: Router, to: Sequence[str]) -> None:
        plain_router(route)
        super().add_conditional_edges(source, route, list(dict.fromkeys([*to, CLOSE])))

    def compile(self, *arguments: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compiles the graph.

        Raises:
            ValueError: the setting ``ask_person`` allows a moment for which the graph has no node; or see
                `DebateGraph.compile`.
        """
        field = self._kind.model_fields.get("ask_person")
        moments = get_args(get_args(field.annotation)[0]) if field else ()
        if silent := [moment for moment in moments if moment not in self._moments]:
            raise ValueError(
                f"{self._kind.__name__} offers ask_person={silent}, but no node waits for a person at these "
                "moments: add rounds(...) for a remark, verdict_from(..., reviewed=True) for the verdict, a "
                "human_review_node for others, or declare ask_person without them."
            )
        last = [node for node in (REMARK, *self._deciding, REVIEW, ROBUSTNESS, CLOSE) if node in self.nodes]
        first = [node for node in self.nodes if node not in last]
        self.nodes = {node: self.nodes[node] for node in (*first, *last)}  # the order in drawings
        return super().compile(*arguments, **options)
