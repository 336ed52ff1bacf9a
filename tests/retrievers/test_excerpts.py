"""Long texts: their sentences, the excerpts that are shown, and quotes, which are checked against the whole text."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._texts.quotes import check_citations
from moot.nodes._texts.replies import Quote
from moot.nodes._texts.show import show_evidence
from moot.retrievers import Evidence, make_evidence, open_encoder
from moot.retrievers._evidence import merge_evidence
from moot.retrievers._excerpts import GAP, beginning, count_tokens, excerpt, sentences, shown_text
from moot.retrievers._normalise import MOST_TOKENS


def parts(text: str) -> list[str]:
    """The sentences of a text."""
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Mortality was 12% vs. 15% in the control arm (P = 0.03).| We conclude that A vs. B differ.",
        "Dr. Smith et al. found it (Fig. 3), e.g. in E. coli.| See Table 2.1 for approx. 37 cases, i.e. all.",
        "The U.S. Senate met at 3 p.m. on Jan. 5.| Half of them voted.",
        "Das ist z. B. ein Satz von Dr. Müller.| Am 3. Oktober 1990 kam er ca. 5 Minuten zu spät!| Warum?",
        "北京是中国的首都。|它有三千多年的历史!|你知道吗?|上海很大。",
        "東京は日本の首都です。|人口は多い。",
        "M. Dupont est arrivé.| Il est parti, p. ex. à midi.",
        "A 😀 smiles.| 𝒳 is a letter.",
        "Title without an end\n\n|A paragraph.",
        "They go on and on.| This decides it.| More here.",
        "",
    ],
)
def test_sentence_boundaries_are_found(text: str) -> None:
    """The parameter has a ``|`` at each boundary."""
    wanted = [part.strip() for part in text.split("|") if part.strip()]
    assert parts(text.replace("|", "")) == wanted


@pytest.mark.parametrize("text", ["東京は日本の首都です。人口は多い、", "They go on and on. This decides it. ", '("« '])
def test_the_time_to_find_sentences_does_not_grow_quadratically(text: str) -> None:
    def time_for(times: int) -> float:
        started = process_time()
        sentences(text * times)
        return process_time() - started

    times = 50_000 // len(text)
    # A text of 8 times the length takes about 8 times as long. With quadratic growth it would take 64 times as long.
    assert min(time_for(8 * times) for _ in range(2)) < 24 * max(time_for(times) for _ in range(2))


@given(st.text(st.sampled_from("ab .\n字é,"), max_size=300), st.integers(1, 60))
def test_the_beginning_of_a_text_keeps_to_its_token_limit(text: str, most: int) -> None:
    """It is the whole text, or it has at least half as many tokens as the limit allows."""
    short = beginning(text, most)
    assert text.startswith(short)
    assert count_tokens(short) <= most
    assert short == text or count_tokens(text) > most
    assert count_tokens(short) >= min(most // 2, count_tokens(text))


LEAD = "The trial took place in twelve hospitals. It began in spring."
FILLER = " ".join(f"Door {i} was painted in colour {i} and opens slowly." for i in range(60))
DECISIVE = "Fewer patients died with the drug: 12% vs. 15% with a placebo."
TEXT = f"{LEAD} {FILLER} {DECISIVE} {FILLER.replace('Door', 'Window')}"
QUERY = "Does the drug lower mortality of patients?"


async def excerpt_for(query: str = QUERY, most: int = 200) -> Evidence:
    """A piece of evidence whose field ``shown`` has the excerpts for a query."""
    piece = make_evidence(text=TEXT, title="Trial", source="s", retriever="bm25:x")
    return {**piece, "shown": await excerpt(TEXT, query, most, await open_encoder())}


async def test_the_beginning_and_the_sentences_nearest_to_the_query_are_shown() -> None:
    piece = await excerpt_for()
    shown = shown_text(piece)
    assert shown.startswith(LEAD)
    assert DECISIVE in shown
    assert f". {GAP} " in shown
    assert DECISIVE not in beginning(TEXT, 200)
    assert count_tokens(shown.replace(GAP, "")) <= 200
    assert count_tokens(shown) > 150
    assert piece["id"] == make_evidence(text=TEXT, source="s")["id"]
    assert shown in show_evidence([piece])


WORDS = " ".join(f"and so we walked to house {i} and looked at it" for i in range(150))
SAID = "the drug lowered the mortality of the patients in both arms"
ROWS = ",".join(f"house {i},{i}" for i in range(300))
STATION = "駅の前に店がある、"
LOWER = "この薬は患者の死亡率を下げた、"
ASKED = "薬は患者の死亡率を下げるか"


@pytest.mark.parametrize(
    ("text", "query", "decisive"),
    [
        (f"Transcript of a talk\n\n{WORDS} {SAID} {WORDS}", QUERY, SAID),
        (f"house,number\n{ROWS},{SAID},12,{ROWS}", QUERY, SAID),
        (f"東京の話。{STATION * 300}{LOWER}{STATION * 300}終わり。", ASKED, LOWER),
        (f"{WORDS.capitalize()}, {WORDS}. {WORDS.capitalize()}; {SAID}, {WORDS}.", QUERY, SAID),
    ],
    ids=["transcript", "csv", "japanese", "long sentences"],
)
async def test_excerpts_fill_at_least_half_the_token_limit_despite_few_sentence_ends(
    text: str, query: str, decisive: str
) -> None:
    """They also show the part that answers the query."""
    for most in (300, MOST_TOKENS):
        spans = await excerpt(text, query, most, await open_encoder())
        shown = " ".join(text[start:end] for start, end in spans)
        assert most // 2 <= count_tokens(shown) <= most
        assert decisive in shown
        assert most // 2 <= count_tokens(beginning(text, most)) <= most


async def test_quotes_are_checked_against_the_whole_text() -> None:
    """A quote that joins the sentences on both sides of a gap is not verified."""
    piece = await excerpt_for()
    unseen = "Door 40 was painted in colour 40"
    assert unseen not in shown_text(piece)
    across = f"It began in spring. {DECISIVE}"
    quotes = [DECISIVE, unseen, across, f"It began in spring. {GAP} {DECISIVE}"]
    checked = check_citations([Quote(evidence_id=piece["id"], quote=q) for q in quotes], [piece], {piece["id"]})
    assert [c["verified"] for c in checked] == [True, True, False, False]
    start = TEXT.index(DECISIVE)
    assert (checked[0]["start"], checked[0]["end"]) == (start, start + len(DECISIVE))


async def test_a_piece_found_twice_shows_the_excerpts_of_both_searches() -> None:
    """It is shown in full if one of the searches shows it in full."""
    first, second = await excerpt_for(), await excerpt_for("Which window was painted in colour 44?")
    assert "Window 44" not in shown_text(first)
    (both,) = merge_evidence([first], [second])
    assert DECISIVE in shown_text(both)
    assert "Window 44" in shown_text(both)
    covered = {i for start, end in (*first["shown"], *second["shown"]) for i in range(start, end)}
    assert {i for start, end in both["shown"] for i in range(start, end) if not TEXT[i].isspace()} == {
        i for i in covered if not TEXT[i].isspace()
    }
    assert json.loads(json.dumps(both)) == both
    whole_piece = make_evidence(text=TEXT, title="Trial", source="s", retriever="bm25:x")
    assert "shown" not in merge_evidence([first], [whole_piece])[0]
    assert "shown" not in merge_evidence([whole_piece], [first])[0]
