"""Prompts: one Markdown file each, and the few functions that fill them.

A prompt has two parts, divided by a line of three dashes: instructions (the system message) and data (the user's
message). Names in braces are placeholders. What fills them is untrusted: claims, evidence and what models wrote are
put between tags as data, and cannot close those tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from string import Formatter

EMPTY_LINES = re.compile(r"\n{3,}")
LOOKALIKES = str.maketrans({"<": "‹", ">": "›", "＜": "‹", "＞": "›", "﹤": "‹", "﹥": "›"})
"""Angle brackets become others, one for one, so that data cannot open or close a tag and offsets stay."""
_BRACKETS = [(chr(bracket), str(other)) for bracket, other in LOOKALIKES.items()]
_ASCII_BRACKETS = [pair for pair in _BRACKETS if pair[0].isascii()]
SPEAKER = frozenset(("name", "side", "position", "stance"))
"""Placeholders that say who speaks, in our words: they stand below the line so that prompts begin alike."""


@lru_cache(maxsize=256)
def load(name: str) -> str:
    """The prompt of that name as it is shipped, e.g. ``tool_mad/query``."""
    folder, _, file = name.partition("/")
    return (resources.files("moot.prompts") / folder / f"{file}.md").read_text(encoding="utf-8")


shipped = load
"""The same, where an edited text may take its place."""


@lru_cache(maxsize=256)
def placeholders(prompt: str) -> frozenset[str]:
    """The names in braces that a prompt uses.

    Raises:
        ValueError: a brace is unbalanced, or a placeholder is not a plain name.
    """
    fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(prompt) if name is not None]
    names = {name for name, _, _ in fields}
    bad = sorted(name for name, spec, conversion in fields if spec or conversion or not name.isidentifier())
    if bad:
        raise ValueError(f"placeholders are plain names, not {bad[0]!r}; write a brace twice to mean the brace itself")
    return frozenset(names)


def check_edited(name: str, text: str) -> str:
    """A text that is to take a prompt's place, its lines as ours end.

    It may leave out placeholders of the instructions, but none of the data, which belong below the line; those that
    say who speaks (`SPEAKER`) may stand anywhere, or nowhere.

    Args:
        name: of the prompt.
        text: that takes its place.

    Raises:
        ValueError: it has no line of three dashes, or other placeholders than it may and must have.
    """
    text = text.replace("\r\n", "\n")
    ours, _, data = shipped(name).partition("\n---\n")
    instructions, dashes, shown = text.partition("\n---\n")
    if not dashes:
        raise ValueError("a prompt needs a line --- between its instructions and its data")
    known, needed = placeholders(shipped(name)), placeholders(data) - SPEAKER
    if unknown := sorted(placeholders(text) - known):
        raise ValueError(f"there is nothing to put for {{{unknown[0]}}}; known are {', '.join(sorted(known))}")
    if missing := sorted(needed - placeholders(shown)):
        raise ValueError(f"{{{missing[0]}}} is missing below the line ---, where what is judged stands")
    if misplaced := sorted((needed - placeholders(ours)) & placeholders(instructions)):
        raise ValueError(f"{{{misplaced[0]}}} belongs below the line ---, as it is nothing to be obeyed")
    return text


def fill(prompt: str, values: Mapping[str, str]) -> tuple[str, str]:
    """The two messages of a prompt, with its placeholders filled.

    Args:
        prompt: the whole text.
        values: by placeholder.

    Returns:
        The instructions, and the data.

    Raises:
        ValueError: the prompt names a placeholder that there is no value for, or has no line of three dashes.
    """
    if not placeholders(prompt) <= values.keys():
        unknown = sorted(placeholders(prompt) - values.keys())
        raise ValueError(f"the prompt uses {unknown}, but there are only {sorted(values)}")
    instructions, data = _parted(prompt)
    shown = data.format(**values)
    if "\n\n\n" in shown:
        shown = EMPTY_LINES.sub("\n\n", shown)
    return instructions.format(**values), shown.strip()


@lru_cache(maxsize=256)
def _parted(prompt: str) -> tuple[str, str]:
    instructions, dashes, data = prompt.partition("\n---\n")
    if not dashes:
        raise ValueError("a prompt needs a line --- between its instructions and its data")
    return instructions.strip(), data.strip()


def without_brackets(text: str) -> str:
    """A text whose angle brackets are others, as `LOOKALIKES` has them."""
    # `str.translate` takes ten times as long for a text that is not ASCII
    for bracket, other in _ASCII_BRACKETS if text.isascii() else _BRACKETS:
        text = text.replace(bracket, other)
    return text


def as_data(tag: str, text: str, **attributes: str) -> str:
    """Untrusted text between tags that it cannot close.

    Args:
        tag: the tag's name.
        text: untrusted.
        attributes: of the tag. They are ours: names and ids, never free text.
    """
    return enclose(tag, [without_brackets(text)], **attributes)


def enclose(tag: str, parts: Iterable[str], **attributes: str) -> str:
    """Parts between tags, one under the other, as they are: tags of their own (`as_data`), or lines of ours.

    Args:
        tag: the tag's name.
        parts: with no angle bracket but those of their tags.
        attributes: as for `as_data`.
    """
    head = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return "\n".join([f"<{tag}{head}>", *parts, f"</{tag}>"])


def blocks_or_none(items: Iterable[str], *, empty: str) -> str:
    """Blocks one under the other, or the words that say that there are none.

    Args:
        items: the blocks.
        empty: these words.
    """
    return "\n".join(items) or empty
