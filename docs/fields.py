"""A Griffe extension for the API reference."""

from __future__ import annotations

from inspect import getdoc, isfunction, signature
from pydoc import locate
from typing import Any

from griffe import Class, Docstring, Extension, Function, Module
from pydantic import BaseModel
from pydantic_core import to_jsonable_python


class Fields(Extension):
    """Completes the reference of settings, nodes and graphs."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Shows the default and the description of each field of a Pydantic model."""
        model = locate(cls.path)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return
        for name, field in model.model_fields.items():
            if name in cls.members:
                default = to_jsonable_python(field.default, exclude_none=True) if not field.is_required() else None
                cls.members[name].value = None if field.is_required() else repr(default)
                cls.members[name].docstring = Docstring(field.description or "")

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        """Shows the docstring that `with_parameters` has completed, and the default of the parameter ``prompt``."""
        function = locate(func.path)
        if any(str(decorator.value).startswith("with_parameters(") for decorator in func.decorators):
            func.docstring = Docstring(getdoc(function) or "", parent=func)
        if "prompt" in func.parameters and isfunction(function):
            func.parameters["prompt"].default = repr(signature(function).parameters["prompt"].default)

    def on_module_instance(self, *, mod: Module, **_: Any) -> None:
        """Keeps the line breaks in the procedures of systems, the paragraphs that begin with a lower-case letter."""
        if mod.docstring and mod.path.startswith("moot.graphs."):
            parts = mod.docstring.value.split("\n\n")
            parts = [f"```text\n{part}\n```" if part[0].islower() else part for part in parts]
            mod.docstring = Docstring("\n\n".join(parts), parent=mod)
