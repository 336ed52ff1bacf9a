"""The builder of a debate system. It adds the parts that all systems have; a graph's file adds the other parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from langgraph.typing import ContextT
from moot.nodes._records.entries import Task
from moot.nodes._runtime.ceilings import Decision
from moot.nodes._runtime.graph import CLOSE, DebateGraph, plain_router
from moot.nodes._runtime.opening import Needs, close_node, open_node
from moot.nodes._runtime.settings import EvidenceSettings, PlanSettings, Settings
from moot.nodes._runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes._steps.assess import assess_node
from moot.nodes._steps.person import human_review_node, question_or, remark_first
from moot.nodes._steps.planning import plan_node
from moot.nodes._steps.robustness import robustness_node
from moot.nodes._steps.second_opinion import second_opinion_node
from moot.nodes._texts.outage import every_search_failed
from moot.retrievers._search import resolve

Next = Sequence[Send | str] | Send | str
"""The next step of a debate: a node's name, a `Send` to one speaker, or a list of these."""
Router = Callable[..., Next]
"""Takes the state and, optionally, the settings; returns the next step of a debate."""
CompiledDebate: TypeAlias = CompiledStateGraph[DebateState, ContextT, ClaimInput, VerdictOutput]
"""The type of a compiled debate whose context is of the given type, such as ``ToolMadSettings | ToolMadContext``."""
OPEN, REMARK, REVIEW = "open", "human_remark", "human_review"
PLAN, REVIEW_PLAN = "plan", "review_plan"
ASSESS, SECOND_OPINION, ROBUSTNESS = "assess", "second_opinion", "robustness"
"""The nodes after the verdict. Each does nothing unless its setting is on."""


class Debate(DebateGraph):
    """A debate system.

    It checks the input before its first node, and ends with a result document, even after a `MootError`. An edge from
    LangGraph's ``START`` leads from this check to the first node. Nodes that decide the verdict are named with
    `add_verdict`, in place of edges to ``END``. The setting ``ask_person`` names the moments at which a person is
    asked: ``remark``, before each round except the first (see `add_round`), and ``verdict``, when there is a draft of
    the verdict (see `add_verdict`). If the settings are `EvidenceSettings`, the answers that decided are assessed
    after the verdict (``assess``), a reviewer may give a second opinion (``second_opinion``), and the deciding step may
    be repeated (``robustness``).

        builder = Debate("ring", RoundsSettings, agents_needs)
        builder.add_node("answer", agent_node())
        builder.add_node("compare_answers", compare_node())
        builder.add_node("vote", vote_node(consensus_or_rounds))
        builder.add_round(another_round, ["answer"], last="compare_answers", then=["vote"])
        builder.add_edge("answer", "compare_answers")
        builder.add_verdict("vote")
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
        self._begin = OPEN
        self._deciding: list[str] = []
        self._first_in_round: set[str] = set()
        self._routes: list[tuple[str, Router, list[str], bool]] = []
        self._decisions: dict[str, Callable[[Any], Mapping[str | None, Decision]]] = {}
        self.add_node(OPEN, open_node(name, needs, check, self.deciders))
        self.add_node(CLOSE, close_node())
        super().add_edge(START, OPEN)
        super().add_edge(CLOSE, END)
        self._after = CLOSE
        if issubclass(settings, EvidenceSettings):
            self._after = ASSESS
            self.add_node(ASSESS, assess_node())
            self.add_node(SECOND_OPINION, second_opinion_node())
            self.add_node(ROBUSTNESS, robustness_node())
            super().add_edge(ASSESS, SECOND_OPINION)
            super().add_edge(SECOND_OPINION, ROBUSTNESS)
            super().add_edge(ROBUSTNESS, CLOSE)

    def add_node(self, name: str, action: Any, **options: Any) -> Debate:  # type: ignore[override]
        """Adds a node like `DebateGraph.add_node`, and remembers the node's deciding calls for `deciders`."""
        if decides := getattr(action, "decides", None):
            self._decisions[name] = decides
        super().add_node(name, action, **options)
        return self

    def deciders(self, settings: Any, needs: Needs) -> dict[str, Decision]:
        """The smallest call of each role that decides the verdict, by the role's name.

        These roles speak in the nodes that were passed to `add_verdict`. If no role speaks there, the only role in the
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

    def add_edge(self, start_key: str | list[str], end_key: str) -> Debate:
        """Adds an edge from a node, from all nodes of a list, or from ``START`` to a node.

        Args:
            start_key: the edge's start: a node, or ``START`` for the beginning of the debate. An edge from a list waits
                for all its nodes.
            end_key: the edge's end.

        Raises:
            ValueError: the edge leads to ``END``; or see LangGraph's `StateGraph.add_edge`.
        """
        if end_key == END:
            raise ValueError(f"add_verdict({start_key!r}) ends the debate, not an edge to END")
        if start_key != START:
            super().add_edge(start_key, end_key)
            return self

        def begin(state: Any) -> str:
            return end_key

        return self._add_route(OPEN, begin, [end_key])

    def add_conditional_edges(  # type: ignore[override]
        self, source: str, path: Router, path_map: Sequence[str] | Mapping[Any, str] | None = None
    ) -> Debate:
        """Adds an edge that depends on the state and the settings.

        If it may lead to a further round, it first leads to the node that asks a person for a remark (see `add_round`).

        Args:
            source: the edge's start: a node, or ``START`` for the beginning of the debate.
            path: the router.
            path_map: the nodes that the router may return; the node ``close`` may be left out.

        Raises:
            ValueError: ``path_map`` is missing, empty or a mapping, or names ``END``; or the router is not a plain
                function.
        """
        if not path_map or isinstance(path_map, Mapping):
            raise ValueError(f"name the nodes that the router after {source!r} may lead to, in a list")
        if END in path_map:
            raise ValueError(f"the router after {source!r} must return 'close' to end the debate, not END")
        if source == START:
            return self._add_route(OPEN, path, path_map)
        return self._add_route(source, path, path_map, may_ask=True)

    def add_round(
        self,
        path: Router,
        path_map: Sequence[str],
        *,
        after: str = START,
        last: str = "",
        then: Sequence[str] = (),
    ) -> Debate:
        """Adds the edge into the first round and, with ``last``, the edge after each round.

        Before each further round, a person may be asked for a remark. So conditional edges that may lead to the same
        nodes first lead to a node that asks for the remark; ``path`` then starts the round.

        Args:
            path: the router into a round. It is also the router after a round, if ``last`` is given.
            path_map: the first nodes of a round.
            after: the node before the first round; by default the beginning of the debate.
            last: the last node of a round, after which ``path`` decides whether another round follows. If rounds end in
                other ways, leave it out, and add conditional edges to the first nodes.
            then: the nodes to which ``path`` may lead after ``last``, instead of another round.

        Raises:
            ValueError: this method was called before; or the router is not a plain function.
        """
        self._first_in_round = set(path_map)
        self.add_node(REMARK, human_review_node("remark"))
        self._add_route(OPEN if after == START else after, path, path_map)
        self._add_route(REMARK, path, path_map)
        return self.add_conditional_edges(last, path, [*path_map, *then]) if last else self

    def add_plan(self, phase: str = "primary") -> Debate:
        """Adds the plan of the first search before the debate's first nodes, for settings that are `PlanSettings`.

        If the setting ``ask_person`` can name the moment ``queries``, a person may review the plan's queries.

        Args:
            phase: the phase of the first search.

        Raises:
            ValueError: the settings are no `PlanSettings`.
        """
        if not issubclass(self._kind, PlanSettings):
            raise ValueError(f"add_plan needs settings that are PlanSettings, and {self._kind.__name__} are not")
        self.add_node(PLAN, plan_node(phase))
        super().add_edge(OPEN, PLAN)
        self._begin = PLAN
        if "queries" in moments_of(self._kind):
            self.add_node(REVIEW_PLAN, human_review_node("queries", of_plan=True))
            super().add_edge(PLAN, REVIEW_PLAN)
            self._begin = REVIEW_PLAN
        return self

    def add_verdict(self, node: str, *, on_question: str = "") -> Debate:
        """Adds the edge from a node that decides the verdict to the end of the debate. There may be several such nodes.

        Args:
            node: the node.
            on_question: the node that decides again if a person questions the draft of the verdict; empty if nobody is
                asked about this draft. Only one verdict of a debate may be questioned.

        Raises:
            ValueError: the verdict of another node may be questioned already.
        """
        self._deciding.append(node)
        if not on_question:
            super().add_edge(node, self._after)
            return self
        self.add_node(REVIEW, human_review_node("verdict"))
        super().add_edge(node, REVIEW)
        return self._add_route(REVIEW, question_or(on_question, self._after), [on_question, self._after])

    def _add_route(self, source: str, path: Router, to: Sequence[str], *, may_ask: bool = False) -> Debate:
        """Adds a conditional edge when the graph is compiled, since only then all first nodes of a round are known."""
        plain_router(path)
        self._routes.append((source, path, list(to), may_ask))
        return self

    def compile(self, *arguments: Any, **options: Any) -> CompiledDebate[Any]:
        """Compiles the graph. A type checker knows the context if the result is annotated: see `CompiledDebate`.

        Raises:
            ValueError: no node decides the verdict; the setting ``ask_person`` allows a moment for which the graph has
                no node; or see `DebateGraph.compile`.
        """
        if not self._deciding:
            raise ValueError("no node decides the verdict: name it with add_verdict(NODE)")
        if unknown := next((node for node in self._deciding if node not in self.nodes), None):
            raise ValueError(f"add_verdict names {unknown!r}, which is no node; add it with add_node")
        if silent := [moment for moment in moments_of(self._kind) if moment not in self._moments]:
            raise ValueError(
                f"{self._kind.__name__} offers ask_person={silent}, but no node waits for a person at these "
                "moments: add_round(...) for a remark, add_verdict(..., on_question=...) for the verdict, a "
                "human_review_node for others, or declare ask_person without them."
            )
        routes, self._routes = self._routes, []
        for source, path, to, may_ask in routes:
            if may_ask and self._first_in_round & set(to):
                path, to = remark_first(path, REMARK, self._first_in_round), [REMARK, *to]
            begin = self._begin if source == OPEN else source
            super().add_conditional_edges(begin, path, list(dict.fromkeys([*to, CLOSE])))
        ends = (REMARK, *self._deciding, REVIEW, ASSESS, SECOND_OPINION, ROBUSTNESS, CLOSE)
        last = [node for node in ends if node in self.nodes]
        first = [node for node in self.nodes if node not in last]
        self.nodes = {node: self.nodes[node] for node in (*first, *last)}  # the order in drawings
        return super().compile(*arguments, **options)


def moments_of(settings: type[Settings]) -> tuple[str, ...]:
    """The moments that the setting ``ask_person`` of a class of settings can name."""
    field = settings.model_fields.get("ask_person")
    return get_args(get_args(field.annotation)[0]) if field else ()
