"""What the reference shows beside docstrings: settings as a form would show them, procedures as they are written."""

from __future__ import annotations

from inspect import getdoc, isfunction, signature
from pydoc import locate
from typing import Any

from griffe import Class, Docstring, Extension, Function, Module
from pydantic import BaseModel
from pydantic_core import to_jsonable_python


class Fields(Extension):
    """Griffe's reading of the code, and what else is known."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """A field of settings, or of a reply, has its default, and its description for a docstring."""
        model = locate(cls.path)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return
        for name, field in model.model_fields.items():
            if name in cls.members:
                default = to_jsonable_python(field.default, exclude_none=True) if not field.is_required() else None
                cls.members[name].value = None if field.is_required() else repr(default)
                cls.members[name].docstring = Docstring(field.description or "")

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        """A step of a trial has the docstring that it has once it is imported; a prompt's name is said as it is."""
        function = locate(func.path)
        if any(str(decorator.value).startswith("explained(") for decorator in func.decorators):
            func.docstring = Docstring(getdoc(function) or "", parent=func)
        if "prompt" in func.parameters and isfunction(function):
            func.parameters["prompt"].default = repr(signature(function).parameters["prompt"].default)

    def on_module_instance(self, *, mod: Module, **_: Any) -> None:
        """A system's procedure, which begins with a small letter, keeps its lines."""
        if mod.docstring and mod.path.startswith("moot.graphs."):
            parts = mod.docstring.value.split("\n\n")
            parts = [f"```text\n{part}\n```" if part[0].islower() else part for part in parts]
            mod.docstring = Docstring("\n\n".join(parts), parent=mod)
