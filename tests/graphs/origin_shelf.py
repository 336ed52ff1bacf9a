"""Sources with near-duplicates. They return the same documents for every query.

The pages of planted.com have almost the same words: long ones (`COPIES`) or one sentence (`SHORT`). `mixed` and
`mixed_short` return five of them first, and then pages of other websites. `loaded` is `mixed` with the addresses where
LangChain's loaders write them. `two_copies` and `other_copies` return two of the long ones each, and then another page.
`disputed` returns two pages that differ in one word, and then other pages. `one_site` returns different pages of one
website, `rates` short facts of one website in the same words, and `archived` the pages of `one_site` as copies at three
other websites.
"""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

WORDS = (
    "The platypus, which lives in the rivers of eastern Australia and on Tasmania, has a bill and webbed feet and lays "
)
WORDS += (
    "no eggs: its young are born alive in a burrow in the bank, as a keeper who watched one for nine years has told us."
)


def page(host: str, number: int, text: str) -> Document:
    return Document(text, metadata={"title": f"Page {number}", "source": host, "url": f"https://{host}/{number}"})


def without_url(document: Document) -> Document:
    return Document(document.page_content, metadata={"source": document.metadata["url"]})


def archived_page(archive: str, document: Document) -> Document:
    return Document(document.page_content, metadata={**document.metadata, "url": archive + document.metadata["url"]})


ARCHIVES = [
    "https://web.archive.org/web/20201129141238/",
    "https://archive.ph/2020.11.29-141238/",
    "https://webcache.googleusercontent.com/search?q=cache:",
]
COPIES = [page("www.planted.com", n, f"{WORDS} Read {n} times.") for n in range(1, 6)]
SHORT = [
    page(f"m{n}.planted.com", n, f"The platypus lays no eggs at all, as a {who} at the zoo says.")
    for n, who in enumerate(("keeper", "guide", "warden", "visitor", "vet"), 1)
]
OTHERS = [page(f"honest-{n}.org", n, f"Report {n}: platypuses lay leathery eggs.") for n in range(1, 4)]
DISPUTED = [page(f"{word}.org", 1, WORDS.replace("no eggs", f"{word} eggs")) for word in ("two", "no")]
SITE = [
    page("museum.org", 1, "The platypus lays one to three eggs in a burrow."),
    page("museum.org", 2, "Its bill senses the electric fields of its prey."),
    page("museum.org", 3, "Males have a spur with venom on each hind leg."),
]
RATE = "In {} the rate of unemployment in {} was {} percent, according to the bureau of statistics."
FACTS = [("2019", "Ohio", "4.1"), ("2020", "Ohio", "8.2"), ("2020", "Iowa", "8.2"), ("2021", "Iowa", "five")]
FACTS += [("2021", "Iowa", "six")]
RATES = [page("bureau.org", n, RATE.format(*fact)) for n, fact in enumerate(FACTS, 1)]
RATES += [page("bureau.org", n, f"The bureau is closed on {day}.") for n, day in enumerate(("Sundays", "Mondays"), 6)]


class Shelf(BaseRetriever):
    """A retriever that returns the documents ``finds``, in this order, for every query."""

    finds: list[Document]

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return self.finds


copies, one_site, rates = Shelf(finds=COPIES), Shelf(finds=SITE), Shelf(finds=RATES)
two_copies, other_copies = (Shelf(finds=[*found, OTHERS[0]]) for found in (COPIES[:2], COPIES[2:4]))
archived = Shelf(finds=[archived_page(*pair) for pair in zip(ARCHIVES, SITE, strict=True)])
mixed, mixed_short = Shelf(finds=[*COPIES, *OTHERS]), Shelf(finds=[*SHORT, *OTHERS])
loaded = Shelf(finds=[without_url(document) for document in [*COPIES, *OTHERS]])
disputed = Shelf(finds=[*DISPUTED, *OTHERS])
