"""Writes equations of Word (OMML) and of web pages (MathML) as a line of text, such as ``(a + b)/c``."""

from __future__ import annotations

from typing import Any

from moot.retrievers._documents.layout import UP

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def linear(element: Any) -> str:
    """An element of an equation as text; properties have none."""
    kind = element.tag.removeprefix(M) if isinstance(element.tag, str) else ""
    if kind == "t":
        return element.text or ""
    if kind.endswith("Pr"):
        return ""
    parts = {child.tag.removeprefix(M): child for child in element if isinstance(child.tag, str)}

    def part(name: str) -> str:
        return linear(parts[name]).strip() if name in parts else ""

    def property_of(name: str, default: str) -> str:
        found = element.find(f"{M}{kind}Pr/{M}{name}")
        return default if found is None else found.get(f"{M}val", "")

    below, above = _script("_", part("sub")), _script("^", part("sup"))
    match kind:
        case "phant" if property_of("show", "1") in ("0", "off", "false"):
            return ""
        case "f":
            return f"{_grouped(part('num'))}/{_grouped(part('den'))}"
        case "sSup" | "sSub" | "sSubSup":
            return part("e") + below + above
        case "sPre":
            return below + above + part("e")
        case "rad":
            return f"{part('deg').translate(UP)}√{_grouped(part('e'))}"
        case "nary":
            return f"{property_of('chr', '∫')}{below}{above} {part('e')}"
        case "d":
            inner = property_of("sepChr", "|").join(linear(child) for child in element.findall(M + "e"))
            return f"{property_of('begChr', '(')}{inner}{property_of('endChr', ')')}"
        case "func":
            return f"{part('fName')} {part('e')}"
        case "limLow" | "limUpp":
            return part("e") + _script("_" if kind == "limLow" else "^", part("lim"))
        case "m" | "eqArr":
            rows = ["; ".join(linear(cell) for cell in row) if kind == "m" else linear(row) for row in element]
            return f"[{' | '.join(row for row in rows if row)}]"
        case _:
            return "".join(map(linear, element))


def of_mathml(element: Any) -> str:
    """An element of MathML in HTML as text, without its annotations."""
    kind = element.tag if isinstance(element.tag, str) else ""
    if kind in ("annotation", "annotation-xml"):
        return ""
    parts = [of_mathml(child).strip() for child in element]
    match kind, parts:
        case "mfrac", [above, below]:
            return f"{_grouped(above)}/{_grouped(below)}"
        case ("msup" | "mover", [base, above]):
            return base + _script("^", above)
        case ("msub" | "munder", [base, below]):
            return base + _script("_", below)
        case ("msubsup" | "munderover", [base, below, above]):
            return base + _script("_", below) + _script("^", above)
        case "msqrt", _:
            return f"√{_grouped(''.join(parts))}"
        case "mroot", [base, degree]:
            return f"{degree.translate(UP)}√{_grouped(base)}"
        case "mtable", _:
            return f"[{' | '.join(parts)}]"
        case "mtr", _:
            return "; ".join(parts)
        case _:
            return (element.text or "").strip() + "".join(parts)


def _grouped(text: str) -> str:
    """A text in parentheses, if it is more than one number or name."""
    return text if text.isalnum() or len(text) == 1 else f"({text})"


def _script(mark: str, text: str) -> str:
    """A superscript (``^``) or subscript (``_``), if there is one."""
    if mark == "^" and text and all(ord(char) in UP for char in text):
        return text.translate(UP)
    return f"{mark}{_grouped(text)}" if text else ""
