"""Finds the state keys that each public node reads and writes, in the syntax trees of the functions that run.

The search starts in a node's step, and follows the state into every function that receives it. Names are looked up in
the function object, which includes its closure. So functions that were passed to a factory are followed. If code cannot
be followed, a ValueError is raised, so that the table never lacks a key.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

from moot.nodes import Node

READ_BY_ALL = ("error", "settings", "turns", "rounds", "phase", "depth")
"""The keys that every node reads if they are present; see `Node`."""
WRITTEN_BY_ALL = ("calls", "warnings", "depth", "error")
"""The keys that every node may write; see `Node`."""
ABOUT = """The state keys of each node: the keys that it requires, the keys that it reads if they are present, and the
keys that it may write. Every node also writes `calls`, `warnings` and `depth` if it called a model or warned, and
`error` if it keeps errors. For its records, every node reads `error`, `settings`, `turns`, `rounds`, `phase` and
`depth` if they are present. If you pass your own function to a factory, it may read other keys. The table is generated
from the nodes' code."""
MOMENTS = ("queries", "premises", "evidence", "remark", "verdict")
"""The moments for which the keys of `human_review_node` are shown."""
EXAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "average_scores_node": {"()": {}, "(stable)": {"stable": lambda state, settings: True}},
    "conclude_node": {"(reason)": {"reason": "single_pass"}},
    "end_agreed_node": {"(reason)": {"reason": lambda settings: "consensus"}},
    "human_review_node": {f'("{moment}")': {"moment": moment} for moment in MOMENTS},
    "vote_node": {"(reason)": {"reason": "single_pass"}},
}
"""The calls of factories that have required arguments, or whose keys depend on their arguments. Each call is a row of
the table, with the arguments that make the node."""
OTHER_GRAPHS = ("moot.nodes._claims", "moot.nodes._steps.reader")
"""Modules whose nodes work on other states than a debate's; their keys are not in the table."""
WHOLE_GRAPHS = {
    "graph_node": ("`graph_node(graph)`", "the graph's required input keys", "its other input keys", "its output keys"),
    "debate_node": (
        "`debate_node(inner, may_follow)`",
        "`claim`, `depth`, `evidence`, `metrics`, `task`",
        "-",
        "keys of the other debate's document",
    ),
}
"""The rows of the factories whose nodes run another graph. The keys that they write are keys of that graph."""
UNKNOWN = object()
"""The value of an expression that cannot be resolved."""


@dataclass
class Keys:
    """Keys of the state: keys that must be present, keys that are read if present, and keys that may be written."""

    required: set[str] = field(default_factory=set)
    optional: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def add_reads(self, other: Keys) -> None:
        """Adds the keys that another function reads."""
        self.required |= other.required
        self.optional |= other.optional


def factories() -> dict[str, Callable[..., Node]]:
    """The public functions that return a node of a debate, except those in `WHOLE_GRAPHS`."""
    nodes = import_module("moot.nodes")
    named = {name: getattr(nodes, name) for name in nodes.__all__ if inspect.isfunction(getattr(nodes, name))}
    made = {name: function for name, function in named.items() if _returns_node(function)}
    return {
        name: function
        for name, function in made.items()
        if name not in WHOLE_GRAPHS and not function.__module__.startswith(OTHER_GRAPHS)
    }


def _returns_node(function: Any) -> bool:
    return inspect.signature(function).return_annotation == "Node"


def rows() -> dict[str, Keys]:
    """The keys of each public node, by the call that makes the node."""
    found = {}
    for name, factory in factories().items():
        for call, arguments in EXAMPLES.get(name, {"()": {}}).items():
            found[name + call] = keys_of(factory(**arguments))
    return found


def keys_of(node: Node) -> Keys:
    """The keys that a node's own step reads and writes."""
    step: Any = node.step
    first = next(iter(inspect.signature(step).parameters))
    use = StateUse(step, {first: frozenset()})
    found = use.read_keys()
    return Keys(found.required, found.optional - found.required, use.written_keys())


def section() -> str:
    """The text about the keys of all public nodes, followed by the table."""
    cells = [
        (f"`{call}`", *(", ".join(f"`{key}`" for key in sorted(part)) or "-" for part in key_sets(keys)))
        for call, keys in rows().items()
    ]
    cells = sorted([*cells, *WHOLE_GRAPHS.values()])
    head = [("node", "reads", "reads if present", "writes"), ("---",) * 4]
    return "\n".join([ABOUT, "", *(f"| {' | '.join(row)} |" for row in [*head, *cells])])


def key_sets(keys: Keys) -> tuple[set[str], set[str], set[str]]:
    """The three sets of keys, in the order of the table's columns."""
    return keys.required, keys.optional, keys.written


# --- functions --------------------------------------------------------------------------------------------------------


class StateUse:
    """The keys that a function reads and writes in the states passed to it.

    Args:
        function: the function.
        states: for each expression in the function that stands for a state (as source text), the keys of this state
            that the caller has replaced. Reads of these keys are not counted.

    Raises:
        ValueError: as `tree_of`.
    """

    def __init__(self, function: Any, states: dict[str, frozenset[str]]) -> None:
        self.function = inspect.unwrap(function)
        self.states = states
        self.tree = tree_of(self.function)
        self.names = names_of(self.function)
        self.found = Keys()
        self.followed: set[ast.AST] = set()

    def read_keys(self) -> Keys:
        """The keys that are read by the function and by the functions that it passes the state to.

        Raises:
            ValueError: the state is used in a way that cannot be followed.
        """
        body = self.tree.body if isinstance(self.tree.body, list) else [ast.Return(self.tree.body)]
        tested: set[str] = set()
        for node in self.reachable_nodes(body):
            self.add_reads(node, tested)
        for node in self.reachable_nodes(body):
            if ast_text(node) in self.states and node not in self.followed:
                raise ValueError(f"{self.location(node)}: the state is used in a way that is not followed")
        self.found.optional |= tested
        self.found.required -= tested
        return self.found

    def written_keys(self) -> set[str]:
        """The keys of the dict that the function returns.

        Raises:
            ValueError: a returned value or key cannot be found.
        """
        if not isinstance(self.tree.body, list):
            return self.keys_in(self.tree.body)
        returned = [
            node.value for node in self.reachable_nodes(self.tree.body, nested=False) if isinstance(node, ast.Return)
        ]
        return set().union(*(self.keys_in(value) for value in returned if value is not None))

    def location(self, node: ast.AST) -> str:
        return f"{self.function.__code__.co_filename}:{getattr(node, 'lineno', '?')}"

    # --- the parts that may run

    def reachable_nodes(self, body: list[Any], *, nested: bool = True) -> Iterator[ast.AST]:
        """Yields every expression and statement that may run; if ``nested`` is true, also those of inner functions.

        `constant_test` decides which branches may run.
        """
        for node in body:
            yield from self.reachable_inside(node, nested)
            if (
                isinstance(node, ast.If)
                and self.constant_test(node.test) is True
                and isinstance(node.body[-1], ast.Return)
            ):
                return

    def reachable_inside(self, node: ast.AST, nested: bool) -> Iterator[ast.AST]:
        """Yields a node of the tree and its parts that may run, as `reachable_nodes`."""
        if not nested and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        yield node
        if isinstance(node, ast.If | ast.IfExp):
            yield from self.reachable_inside(node.test, nested)
            test = self.constant_test(node.test)
            for part, value in ((node.body, True), (node.orelse, False)):
                if test in (value, None):
                    yield from self.reachable_nodes(part if isinstance(part, list) else [part], nested=nested)
            return
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self.reachable_inside(value, nested)
                if self.constant_test(value) is isinstance(node.op, ast.Or):
                    return
            return
        for name, part in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
                yield from self.reachable_nodes(part, nested=nested)
            else:
                for child in part if isinstance(part, list) else [part]:
                    if isinstance(child, ast.AST):
                        yield from self.reachable_inside(child, nested)

    def constant_test(self, test: ast.AST) -> bool | None:
        """The value of a test, if the factory's arguments determine it; None for other tests."""
        if isinstance(test, ast.BoolOp):
            ends = isinstance(test.op, ast.Or)
            values = [self.constant_test(value) for value in test.values]
            return ends if ends in values else None if None in values else not ends
        named = [node.id for node in ast.walk(test) if isinstance(node, ast.Name)]
        free = {name: self.names[name] for name in self.function.__code__.co_freevars}
        allowed = free | {"isinstance": isinstance, "callable": callable, "str": str}
        if not named or not all(name in allowed for name in named):
            return None
        expression = ast.Expression(test)  # type: ignore[arg-type]
        return bool(eval(compile(expression, "test", "eval"), {"__builtins__": {}}, allowed))

    # --- reads

    def add_reads(self, node: ast.AST, tested: set[str]) -> None:
        """Adds the keys that an expression reads. Keys that it tests with ``in`` are added to ``tested``."""
        if isinstance(node, ast.Subscript) and self.replaced_keys(node.value) is not None:
            self.add_key(self.found.required, node.slice, node.value)
        elif isinstance(node, ast.Compare) and self.replaced_keys(node.comparators[0]) is not None:
            if not isinstance(node.ops[0], ast.In | ast.NotIn):
                raise ValueError(f"{self.location(node)}: a state is compared by an operator other than `in`")
            self.add_key(tested, node.left, node.comparators[0])
        elif isinstance(node, ast.Call):
            self.follow_call(node)

    def add_key(self, to: set[str], key: ast.AST, state: ast.AST) -> None:
        """Adds a constant key of a state to the set ``to``, unless the key was replaced in this state."""
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise ValueError(f"{self.location(key)}: the key is not a constant")
        self.followed.add(state)
        if key.value not in (self.replaced_keys(state) or ()):
            to.add(key.value)

    def follow_call(self, call: ast.Call) -> None:
        """Follows a call that receives the state, or adds the key of ``state.get``."""
        if isinstance(call.func, ast.Attribute) and self.replaced_keys(call.func.value) is not None:
            if call.func.attr != "get":
                raise ValueError(f"{self.location(call)}: state.{call.func.attr} is not followed")
            self.add_key(self.found.optional, call.args[0], call.func.value)
            return
        passed = [
            node for node in [*call.args, *(k.value for k in call.keywords)] if self.replaced_keys(node) is not None
        ]
        if not passed:
            return
        target = self.resolve(call.func)
        for node in passed:
            self.followed |= set(ast.walk(node))
        if target is UNKNOWN:
            raise ValueError(f"{self.location(call)}: {ast.unparse(call.func)} is not known")
        if not callable(target):  # the factory got a value, such as a text, instead of a function
            return
        inner = self.state_parameters(call, target)
        if inspect.isclass(target):  # an object of the class stores the state in its attributes
            within = {f"self.{name}": replaced for name, replaced in inner.items()}
            for method in vars(target).values():
                if isinstance(method, FunctionType) and method.__code__.co_filename == inspect.getsourcefile(target):
                    self.found.add_reads(StateUse(method, within).read_keys())
            return
        self.found.add_reads(StateUse(target, inner).read_keys())

    def state_parameters(self, call: ast.Call, target: Any) -> dict[str, frozenset[str]]:
        """The parameters of a called function that are states, each with the keys that were replaced in it."""
        plain = [node for node in call.args if not isinstance(node, ast.Starred)]
        if len(plain) < len(call.args) and any(
            self.replaced_keys(node) is not None for node in call.args[call.args.index(plain[0]) if plain else 0 :]
        ):
            raise ValueError(f"{self.location(call)}: the state's place among the arguments is not known")
        bound = inspect.signature(target).bind_partial(*call.args, **{k.arg: k.value for k in call.keywords if k.arg})
        found = {}
        for name, value in bound.arguments.items():
            if isinstance(value, ast.AST) and (replaced := self.replaced_keys(value)) is not None:
                found[name] = replaced
        return found

    def replaced_keys(self, node: ast.AST) -> frozenset[str] | None:
        """The replaced keys of the state that an expression stands for; None if the expression stands for no state."""
        if (text := ast_text(node)) in self.states:
            return self.states[text]
        if not (isinstance(node, ast.Dict) and node.keys and node.keys[0] is None):
            return None
        if (whole := self.replaced_keys(node.values[0])) is None:
            return None
        return whole | self.keys_in(ast.Dict(node.keys[1:], node.values[1:]))

    # --- writes and values

    def keys_in(self, node: ast.AST) -> set[str]:
        """The keys of the dict that is an expression's value."""
        match node:
            case ast.Dict():
                found: set[str] = set()
                for key, value in zip(node.keys, node.values, strict=True):
                    found |= {str(key.value)} if isinstance(key, ast.Constant) else set()
                    if key is None:
                        found |= self.keys_in(value)
                    elif not isinstance(key, ast.Constant):
                        raise ValueError(f"{self.location(node)}: a key that is written is not a constant")
                return found
            case ast.BinOp(op=ast.BitOr()):
                return self.keys_in(node.left) | self.keys_in(node.right)
            case ast.Await():
                return self.keys_in(node.value)
            case ast.IfExp():
                test = self.constant_test(node.test)
                parts = [part for part, value in ((node.body, True), (node.orelse, False)) if test in (value, None)]
                return set().union(*map(self.keys_in, parts))
            case ast.Name():
                return self.keys_of_name(node)
            case ast.Call() if isinstance(target := self.resolve(node.func), FunctionType):
                return StateUse(target, self.state_parameters(node, target)).written_keys()
        raise ValueError(f"{self.location(node)}: the written value is not known: {ast.unparse(node)}")

    def keys_of_name(self, name: ast.Name) -> set[str]:
        """The keys of the dict in a local variable, from all assignments to the variable and to the dict's items."""
        found: set[str] = set()
        assigned = False
        body = self.tree.body if isinstance(self.tree.body, list) else []
        for node in self.reachable_nodes(body, nested=False):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name.id and getattr(node, "value", None):
                    assigned = True
                    found |= self.keys_in(node.value)  # type: ignore[attr-defined]
                elif isinstance(target, ast.Subscript) and ast_text(target.value) == name.id:
                    found |= {ast.literal_eval(target.slice)}
        if not assigned:
            raise ValueError(f"{self.location(name)}: the content of {name.id} is not known")
        return found

    def resolve(self, node: ast.AST) -> Any:
        """The value of a name or attribute; `UNKNOWN` if it is only known when the function runs."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, UNKNOWN)
        if isinstance(node, ast.Attribute) and (owner := self.resolve(node.value)) is not UNKNOWN:
            return getattr(owner, node.attr, UNKNOWN)
        return UNKNOWN


def names_of(function: Any) -> dict[str, Any]:
    """The names that a function can use, with their values: built-in names, and names of its module and its closure."""
    return {**vars(builtins), **function.__globals__, **inspect.getclosurevars(function).nonlocals}


def ast_text(node: ast.AST) -> str:
    """The text of a name or of an attribute; empty for other expressions."""
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


@cache
def module_tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def tree_of(function: Any) -> Any:
    """The syntax tree of a function or a lambda.

    Raises:
        ValueError: the line where the function begins has no function with its parameters, or several such functions.
    """
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    found = [
        node
        for node in ast.walk(module_tree(code.co_filename))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) == code.co_firstlineno
        and [a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]] == names
    ]
    if len(found) != 1:
        raise ValueError(f"{code.co_filename}:{code.co_firstlineno}: {len(found)} functions with these parameters")
    return found[0]
