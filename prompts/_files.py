"""Loads prompts, each from a Markdown file, and fills their placeholders.

A prompt has two parts, divided by a line of three dashes: instructions (the system message) and data (the user
message). Names in braces are placeholders. Claims, evidence and texts of models are untrusted: they are inserted as
data between tags, and cannot close these tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from string import Formatter

EMPTY_LINES = re.compile(r"\n{3,}")
LOOKALIKES = str.maketrans({"<": "‹", ">": "›", "＜": "‹", "＞": "›", "﹤": "‹", "﹥": "›"})
"""Replaces each angle bracket by a similar character, so that data cannot open or close a tag. Offsets do not change.
"""
_BRACKETS = [(chr(bracket), str(other)) for bracket, other in LOOKALIKES.items()]
_ASCII_BRACKETS = [pair for pair in _BRACKETS if pair[0].isascii()]
SPEAKER = frozenset(("name", "side", "position", "stance"))
"""Placeholders about the speaker; moot's own texts fill them. In shipped prompts they are in the data, so that the
prompts of all speakers begin with the same instructions.
"""


@lru_cache(maxsize=256)
def load(name: str) -> str:
    """The shipped prompt with this name, e.g. ``tool_mad/query``.

    Raises:
        FileNotFoundError: there is no such prompt.
    """
    folder, _, file = name.partition("/")
    return (resources.files("moot.prompts") / folder / f"{file}.md").read_text(encoding="utf-8")


shipped = load
"""Another name of `load`, for code that also handles edited prompts. It never returns an edited prompt."""


@lru_cache(maxsize=256)
def placeholders(prompt: str) -> frozenset[str]:
    """The names in braces that a prompt uses; ValueError for other uses of braces."""
    fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(prompt) if name is not None]
    names = {name for name, _, _ in fields}
    bad = sorted(
        name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for name, spec, conversion in fields
        if spec or conversion or not name.isidentifier()
    )
    if bad:
        raise ValueError(f"a placeholder is a plain name, not {bad[0]!r}; for a brace in the text, write it twice")
    return frozenset(names)


def check_edited(name: str, text: str) -> str:
    """Checks a text that replaces a shipped prompt (else ValueError), and returns it with shipped line ends."""
    text = text.replace("\r\n", "\n")
    shipped_instructions, _, shipped_data = shipped(name).partition("\n---\n")
    instructions, dashes, data = text.partition("\n---\n")
    if not dashes:
        raise ValueError("a prompt needs a line --- between its instructions and its data")
    # Those about the speaker, and those that only the shipped instructions have, may be anywhere or left out.
    known, needed = placeholders(shipped(name)), placeholders(shipped_data) - SPEAKER
    if unknown := sorted(placeholders(text) - known):
        raise ValueError(f"the placeholder {{{unknown[0]}}} is unknown; known are {', '.join(sorted(known))}")
    if missing := sorted(needed - placeholders(data)):
        raise ValueError(f"{{{missing[0]}}} is missing below the line ---, in the data")
    # Instructions may use data only if the shipped instructions use it, too.
    if misplaced := sorted((needed - placeholders(shipped_instructions)) & placeholders(instructions)):
        raise ValueError(f"{{{misplaced[0]}}} is untrusted data, so it must be below the line ---")
    return text


def fill(prompt: str, values: Mapping[str, str]) -> tuple[str, str]:
    """The two messages of a prompt, with its placeholders filled.

    In the data, consecutive empty lines become one empty line, also in the inserted values.

    Args:
        prompt: the whole prompt.
        values: the values by placeholder.

    Returns:
        The instructions and the data.

    Raises:
        ValueError: a brace is unbalanced, a placeholder is not a plain name or has no value, or the prompt has no line
            of three dashes.
    """
    if not placeholders(prompt) <= values.keys():
        missing = sorted(placeholders(prompt) - values.keys())
        raise ValueError(f"the prompt uses the placeholders {missing}, but there are values only for {sorted(values)}")
    instructions, data = _split_prompt(prompt)
    filled = data.format(**values)
    if "\n\n\n" in filled:
        filled = EMPTY_LINES.sub("\n\n", filled)
    return instructions.format(**values), filled.strip()


@lru_cache(maxsize=256)
def _split_prompt(prompt: str) -> tuple[str, str]:
    """A prompt's instructions and its data."""
    instructions, dashes, data = prompt.partition("\n---\n")
    if not dashes:
        raise ValueError("a prompt needs a line --- between its instructions and its data")
    return instructions.strip(), data.strip()


def without_brackets(text: str) -> str:
    """A text whose angle brackets are replaced as `LOOKALIKES` says."""
    # A loop, because `str.translate` would take at least ten times as long.
    for bracket, other in _ASCII_BRACKETS if text.isascii() else _BRACKETS:
        text = text.replace(bracket, other)
    return text


def as_data(tag: str, text: str, **attributes: str) -> str:
    """Untrusted text between tags that it cannot close.

    Args:
        tag: the tag's name.
        text: the untrusted text.
        attributes: the tag's attributes. They must be trusted: names and ids, never free text.
    """
    return enclose(tag, [without_brackets(text)], **attributes)


def enclose(tag: str, parts: Iterable[str], **attributes: str) -> str:
    """Parts between two tags; a part has tags of its own (`as_data`), or is moot's own line without angle brackets."""
    head = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return "\n".join([f"<{tag}{head}>", *parts, f"</{tag}>"])


def join_blocks(items: Iterable[str], *, empty: str) -> str:
    """Blocks, each on a new line; the text ``empty`` if there are none."""
    return "\n".join(items) or empty
