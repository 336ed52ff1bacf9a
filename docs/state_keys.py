"""The state keys that each public node reads and writes, from the syntax trees of the functions that run.

A node's step is followed into every function that the state is passed to. Names are looked up in the functions
themselves, so a callable passed to a factory is followed like one that the step names. Code that cannot be followed is
an error, not a gap in the table.
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
WRITTEN_BY_ALL = ("calls", "warnings", "depth", "error")
"""The keys of every node; see `Node`."""
ABOUT = """The keys of the state that each node reads: those that it must have, and those that it may have; and the keys
that the node may write. Every node also writes `calls`, `warnings` and `depth` if it called a model or warned, and
`error` if it keeps errors; for its records it reads `error`, `settings`, `turns`, `rounds`, `phase` and `depth`, if
present. A function of yours that you pass to a factory may read more. The table is written from the nodes' code."""
MOMENTS = ("queries", "premises", "evidence", "remark", "verdict")
EXAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "average_scores_node": {"()": {}, "(stable)": {"stable": lambda state, settings: True}},
    "conclude_node": {"(reason)": {"reason": "single_pass"}},
    "end_agreed_node": {"(reason)": {"reason": lambda settings: "consensus"}},
    "human_review_node": {f'("{moment}")': {"moment": moment} for moment in MOMENTS},
    "vote_node": {"(reason)": {"reason": "single_pass"}},
}
"""The rows of a factory that has required arguments, or whose keys depend on them: the call, and its arguments."""
ANY_GRAPH = ("graph_node(graph)", "the keys of the graph's input that it requires", "its other ones", "its output")
"""The row of the node whose keys are those of another graph."""
UNKNOWN = object()


@dataclass
class Keys:
    """Keys of the state: read in every case, read if present, written."""

    required: set[str] = field(default_factory=set)
    optional: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def add_reads(self, other: Keys) -> None:
        """Adds another function's reads."""
        self.required |= other.required
        self.optional |= other.optional


def factories() -> dict[str, Callable[..., Node]]:
    """The public functions that return a node, except `graph_node`."""
    nodes = import_module("moot.nodes")
    named = {name: getattr(nodes, name) for name in nodes.__all__ if inspect.isfunction(getattr(nodes, name))}
    made = {name: one for name, one in named.items() if inspect.signature(one).return_annotation == "Node"}
    return {name: one for name, one in made.items() if name != "graph_node"}


def rows() -> dict[str, Keys]:
    """The keys of each public node, by its call."""
    found = {}
    for name, factory in factories().items():
        for call, arguments in EXAMPLES.get(name, {"()": {}}).items():
            found[name + call] = keys_of(factory(**arguments))
    return found


def keys_of(node: Node) -> Keys:
    """The keys that a node's own step reads and writes."""
    step: Any = node.step
    first = next(iter(inspect.signature(step).parameters))
    run = StateUse(step, {first: frozenset()})
    found = run.keys()
    return Keys(found.required, found.optional - found.required, run.written())


def section() -> str:
    """The table of all public nodes, after the text that applies to all of them."""
    cells = [
        (f"`{call}`", *(", ".join(f"`{key}`" for key in sorted(part)) or "-" for part in key_sets(keys)))
        for call, keys in rows().items()
    ]
    cells = sorted([*cells, (f"`{ANY_GRAPH[0]}`", *ANY_GRAPH[1:])])
    head = [("node", "reads", "reads if present", "writes"), ("---",) * 4]
    return "\n".join([ABOUT, "", *(f"| {' | '.join(row)} |" for row in [*head, *cells])])


def key_sets(keys: Keys) -> tuple[set[str], set[str], set[str]]:
    return keys.required, keys.optional, keys.written


# --- functions --------------------------------------------------------------------------------------------------------


class StateUse:
    """The keys that a function reads and writes in the states passed to it.

    Args:
        function: the function.
        states: the expressions that are states, each with the keys that were replaced before the call.
    """

    def __init__(self, function: Any, states: dict[str, frozenset[str]]) -> None:
        self.function = inspect.unwrap(function)
        self.states = states
        self.tree = tree_of(self.function)
        self.names = names_of(self.function)
        self.found = Keys()
        self.followed: set[ast.AST] = set()

    def keys(self) -> Keys:
        """The keys that it reads.

        Raises:
            ValueError: the state is used in a way that is not followed.
        """
        body = self.tree.body if isinstance(self.tree.body, list) else [ast.Return(self.tree.body)]
        tested: set[str] = set()
        for one in self.running_parts(body):
            self.add_reads(one, tested)
        for one in self.running_parts(body):
            if ast_text(one) in self.states and one not in self.followed:
                raise ValueError(f"{self.location(one)}: the state is used in a way that is not followed")
        self.found.optional |= tested
        self.found.required -= tested
        return self.found

    def written(self) -> set[str]:
        """The keys of the dict that it returns."""
        if not isinstance(self.tree.body, list):
            return self.keys_in(self.tree.body)
        returned = [
            one.value for one in self.running_parts(self.tree.body, nested=False) if isinstance(one, ast.Return)
        ]
        return set().union(*(self.keys_in(value) for value in returned if value is not None))

    def location(self, one: ast.AST) -> str:
        return f"{self.function.__code__.co_filename}:{getattr(one, 'lineno', '?')}"

    # --- the parts that may run

    def running_parts(self, body: list[Any], *, nested: bool = True) -> Iterator[ast.AST]:
        """Every expression and statement that may run, of functions inside it too if ``nested``."""
        for one in body:
            yield from self.running_inside(one, nested)
            if (
                isinstance(one, ast.If)
                and self.constant_test(one.test) is True
                and isinstance(one.body[-1], ast.Return)
            ):
                return

    def running_inside(self, one: ast.AST, nested: bool) -> Iterator[ast.AST]:
        if not nested and isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        yield one
        if isinstance(one, ast.If | ast.IfExp):
            yield from self.running_inside(one.test, nested)
            decided = self.constant_test(one.test)
            for part, runs in ((one.body, decided is not False), (one.orelse, decided is not True)):
                if runs:
                    yield from self.running_parts(part if isinstance(part, list) else [part], nested=nested)
            return
        if isinstance(one, ast.BoolOp):
            for value in one.values:
                yield from self.running_inside(value, nested)
                if self.constant_test(value) is isinstance(one.op, ast.Or):
                    return
            return
        for name, part in ast.iter_fields(one):
            if name in ("annotation", "returns"):
                continue
            if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
                yield from self.running_parts(part, nested=nested)
            else:
                for child in part if isinstance(part, list) else [part]:
                    if isinstance(child, ast.AST):
                        yield from self.running_inside(child, nested)

    def constant_test(self, test: ast.AST) -> bool | None:
        """The value of a test that depends only on the factory's arguments; else None."""
        if isinstance(test, ast.BoolOp):
            ends = isinstance(test.op, ast.Or)
            values = [self.constant_test(value) for value in test.values]
            return ends if ends in values else None if None in values else not ends
        named = [one.id for one in ast.walk(test) if isinstance(one, ast.Name)]
        free = {name: self.names[name] for name in self.function.__code__.co_freevars}
        allowed = free | {"isinstance": isinstance, "callable": callable, "str": str}
        if not named or not all(name in allowed for name in named):
            return None
        expression = ast.Expression(test)  # type: ignore[arg-type]
        return bool(eval(compile(expression, "test", "eval"), {"__builtins__": {}}, allowed))

    # --- reads

    def add_reads(self, one: ast.AST, tested: set[str]) -> None:
        """Adds the keys that an expression reads."""
        if isinstance(one, ast.Subscript) and self.state_keys(one.value) is not None:
            self.add(self.found.required, one.slice, one.value)
        elif isinstance(one, ast.Compare) and self.state_keys(one.comparators[0]) is not None:
            if not isinstance(one.ops[0], ast.In | ast.NotIn):
                raise ValueError(f"{self.location(one)}: a state is compared")
            self.add(tested, one.left, one.comparators[0])
        elif isinstance(one, ast.Call):
            self.follow_call(one)

    def add(self, to: set[str], key: ast.AST, state: ast.AST) -> None:
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise ValueError(f"{self.location(key)}: the key is not a constant")
        self.followed.add(state)
        if key.value not in (self.state_keys(state) or ()):
            to.add(key.value)

    def follow_call(self, call: ast.Call) -> None:
        """Follows a call that receives the state, or adds the key of ``state.get``."""
        if isinstance(call.func, ast.Attribute) and self.state_keys(call.func.value) is not None:
            if call.func.attr != "get":
                raise ValueError(f"{self.location(call)}: state.{call.func.attr} is not followed")
            self.add(self.found.optional, call.args[0], call.func.value)
            return
        passed = [one for one in [*call.args, *(k.value for k in call.keywords)] if self.state_keys(one) is not None]
        if not passed:
            return
        target = self.value(call.func)
        for one in passed:
            self.followed |= set(ast.walk(one))
        if target is UNKNOWN:
            raise ValueError(f"{self.location(call)}: {ast.unparse(call.func)} is not known")
        if not callable(target):  # another kind of argument than a function
            return
        inner = self.state_parameters(call, target)
        if inspect.isclass(target):  # its objects store the state
            within = {f"self.{name}": replaced for name, replaced in inner.items()}
            for method in vars(target).values():
                if isinstance(method, FunctionType) and method.__code__.co_filename == inspect.getsourcefile(target):
                    self.found.add_reads(StateUse(method, within).keys())
            return
        self.found.add_reads(StateUse(target, inner).keys())

    def state_parameters(self, call: ast.Call, target: Any) -> dict[str, frozenset[str]]:
        """The parameters of a called function that are states."""
        plain = [one for one in call.args if not isinstance(one, ast.Starred)]
        if len(plain) < len(call.args) and any(
            self.state_keys(one) is not None for one in call.args[call.args.index(plain[0]) if plain else 0 :]
        ):
            raise ValueError(f"{self.location(call)}: the state's place among the arguments is not known")
        bound = inspect.signature(target).bind_partial(*call.args, **{k.arg: k.value for k in call.keywords if k.arg})
        found = {}
        for name, value in bound.arguments.items():
            if isinstance(value, ast.AST) and (replaced := self.state_keys(value)) is not None:
                found[name] = replaced
        return found

    def state_keys(self, one: ast.AST) -> frozenset[str] | None:
        """The keys that a state has from elsewhere; None if an expression is not a state."""
        if (text := ast_text(one)) in self.states:
            return self.states[text]
        if not (isinstance(one, ast.Dict) and one.keys and one.keys[0] is None):
            return None
        if (whole := self.state_keys(one.values[0])) is None:
            return None
        return whole | self.keys_in(ast.Dict(one.keys[1:], one.values[1:]))

    # --- writes and values

    def keys_in(self, one: ast.AST) -> set[str]:
        """The keys of an expression that is a dict."""
        match one:
            case ast.Dict():
                found: set[str] = set()
                for key, value in zip(one.keys, one.values, strict=True):
                    found |= {str(key.value)} if isinstance(key, ast.Constant) else set()
                    if key is None:
                        found |= self.keys_in(value)
                    elif not isinstance(key, ast.Constant):
                        raise ValueError(f"{self.location(one)}: a key that is written is not a constant")
                return found
            case ast.BinOp(op=ast.BitOr()):
                return self.keys_in(one.left) | self.keys_in(one.right)
            case ast.Await():
                return self.keys_in(one.value)
            case ast.IfExp():
                decided = self.constant_test(one.test)
                parts = [part for part, not_if in ((one.body, False), (one.orelse, True)) if decided is not not_if]
                return set().union(*map(self.keys_in, parts))
            case ast.Name():
                return self.keys_of_name(one)
            case ast.Call() if isinstance(target := self.value(one.func), FunctionType):
                return StateUse(target, self.state_parameters(one, target)).written()
        raise ValueError(f"{self.location(one)}: the written value is not known: {ast.unparse(one)}")

    def keys_of_name(self, name: ast.Name) -> set[str]:
        """The keys of a local dict: of everything that is assigned or added to it."""
        found: set[str] = set()
        assigned = False
        body = self.tree.body if isinstance(self.tree.body, list) else []
        for one in self.running_parts(body, nested=False):
            targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name.id and getattr(one, "value", None):
                    assigned = True
                    found |= self.keys_in(one.value)  # type: ignore[attr-defined]
                elif isinstance(target, ast.Subscript) and ast_text(target.value) == name.id:
                    found |= {ast.literal_eval(target.slice)}
        if not assigned:
            raise ValueError(f"{self.location(name)}: the content of {name.id} is not known")
        return found

    def value(self, one: ast.AST) -> Any:
        """The value of a name or attribute; `UNKNOWN` for local names."""
        if isinstance(one, ast.Name):
            return self.names.get(one.id, UNKNOWN)
        if isinstance(one, ast.Attribute) and (owner := self.value(one.value)) is not UNKNOWN:
            return getattr(owner, one.attr, UNKNOWN)
        return UNKNOWN


def names_of(function: Any) -> dict[str, Any]:
    """The names that a function sees: built-in ones, its module's, and those of functions around it."""
    return {**vars(builtins), **function.__globals__, **inspect.getclosurevars(function).nonlocals}


def ast_text(one: ast.AST) -> str:
    """The text of a name or of an attribute; else empty."""
    return ast.unparse(one) if isinstance(one, ast.Name | ast.Attribute) else ""


@cache
def module_tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def tree_of(function: Any) -> Any:
    """The syntax tree of a function or a lambda.

    Raises:
        ValueError: several functions on its line have the same parameters.
    """
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    found = [
        one
        for one in ast.walk(module_tree(code.co_filename))
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and min([one.lineno, *(d.lineno for d in getattr(one, "decorator_list", []))]) == code.co_firstlineno
        and [a.arg for a in [*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs]] == names
    ]
    if len(found) != 1:
        raise ValueError(f"{code.co_filename}:{code.co_firstlineno}: {len(found)} functions with these parameters")
    return found[0]
