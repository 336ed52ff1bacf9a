"""Decoding texts of many languages in their usual code pages, with and without a declaration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from moot.retrievers import read_passages
from moot.retrievers._documents.charsets import charset_in_name, decode
from moot.retrievers._documents.fetch import in_utf8
from moot.retrievers._documents.parsed import UnreadableDocument

LANGUAGES = [json.loads(line) for line in Path(__file__).with_name("languages.jsonl").read_text("utf-8").splitlines()]
ENGLISH = "The bridge was opened by the mayor, and many people came. "


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str]:
    """A text in one of the languages, of a few words or many, perhaps within English, and its code page."""
    language = draw(st.sampled_from(LANGUAGES))
    sentences = draw(st.lists(st.sampled_from(language["sentences"]), min_size=1, max_size=6))
    text = " ".join(sentences)
    text = text[: draw(st.sampled_from((8, 20, 40, 80, 10_000)))]
    charset = draw(st.sampled_from(language["charsets"]))
    text = ENGLISH * draw(st.sampled_from((0, 0, 1, 10))) + text
    text = text.upper() if draw(st.booleans()) else text
    return text.encode(charset, "ignore").decode(charset), charset


def _is_utf8(content: bytes) -> bool:
    """Whether the bytes are valid UTF-8."""
    return content.decode(errors="ignore").encode() == content


@settings(max_examples=100)
@given(texts())
def test_a_text_without_a_declaration_is_right_or_refused(drawn: tuple[str, str]) -> None:
    text, charset = drawn
    # "ÓŹ" in ISO-8859-2 is a letter in UTF-8. No reader can tell such a text of one or two letters from UTF-8.
    assume(text.isascii() or not _is_utf8(text.encode(charset)))
    try:
        found = decode(text.encode(charset)).text
    except UnreadableDocument:
        return
    assert found == text


def test_most_pages_of_text_without_a_declaration_are_read() -> None:
    read = 0
    pages = [(" ".join(one["sentences"]), charset) for one in LANGUAGES[:25] for charset in one["charsets"]]
    for text, charset in pages:
        try:
            read += bool(decode(text.encode(charset, "ignore")).text)
        except UnreadableDocument:
            continue
    assert read / len(pages) > 0.5


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("iso-8859-1", "cp1252", "L’œuvre coûte 3 €"),
        ("us-ascii", "cp1252", "L’œuvre coûte 3 €"),
        ("gb2312", "gbk", "朱镕基開通"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("Shift_JIS", "cp932", "①髙島屋㈱"),
        ("tis-620", "cp874", "“ราคา”"),
        ("utf-16", "utf-8", "L’œuvre coûte 3 €"),
    ],
)
def test_a_declared_encoding_is_read_by_the_standard_of_browsers(label: str, codec: str, text: str) -> None:
    for page in (f"<html><meta charset={label}>{text}", f'<?xml version="1.0" encoding="{label}"?><html>{text}'):
        assert decode(page.encode(codec)).text == page
    if label != "utf-16":  # a server that says it means it
        assert decode(text.encode(codec), label).text == text


def test_a_declared_encoding_of_another_alphabet_is_refused() -> None:
    text = "Мост был открыт в 1869 году. Пришли тысячи людей, и городской голова произнёс речь."
    page = f"<html><meta charset=iso-8859-1><p>{text}".encode("cp1251")
    with pytest.raises(UnreadableDocument, match=r"encoding that it declares \(iso-8859-1\)"):
        decode(page)
    assert text in decode(page, "windows-1251").text  # as a person names it
    with pytest.raises(UnreadableDocument):  # soon, also with a picture in the page
        decode(page + b" " + b"A" * 10**6)
    assert in_utf8(text.encode("cp1251"), "iso-8859-1") is None  # as many servers say of all files
    assert in_utf8("Le café à côté de l’église".encode("cp1252"), "iso-8859-1")


def test_one_bad_byte_does_not_refuse_a_page() -> None:
    page = "<meta charset=utf-8><p>Мост был открыт в 1869 году.".encode()
    assert decode(page + b"\xff").text == page.decode() + "\ufffd"
    with pytest.raises(UnreadableDocument):
        decode("Мост".encode("cp1251") + b" <meta charset=utf-8>")


def test_the_name_of_a_file_can_say_its_encoding(tmp_path: Path) -> None:
    for name, found in (("a.windows-1251.txt", "windows-1251"), ("a.greek.txt", None), ("a.v-12.txt", None)):
        assert charset_in_name(Path(name)) == found
    (tmp_path / "a.windows-1251.txt").write_bytes("Мост".encode("cp1251"))
    (tmp_path / "b.windows-1251.html").write_bytes("<html><p>Мост".encode("cp1251"))
    assert [passage.text for passage in read_passages(tmp_path)] == ["Мост", "Мост"]


def test_an_encoding_of_seven_bits_is_not_taken_for_utf_8() -> None:
    content = "古い橋は1869年に開通した。".encode("iso-2022-jp")
    assert decode(content, "iso-2022-jp").text == "古い橋は1869年に開通した。"
    assert decode(b'<meta charset="iso-2022-jp">' + content).charset == "iso2022_jp"
    with pytest.raises(UnreadableDocument):
        decode(content)
