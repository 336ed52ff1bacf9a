"""A source: the minutes of a council, searched by their words."""

from moot.retrievers import Evidence, make_evidence

MINUTES = {
    "May 2024": "The council opened the tram line in May 2024. It cost 412 million pounds.",
    "June 2024": "The council bought twelve buses that run on batteries.",
}


class Minutes:
    """minutes of a council's meetings

    The first line describes the source to the debaters.
    """

    name = "minutes"

    async def search(self, query: str, k: int) -> list[Evidence]:
        """At most k texts that share words with the query; those with the most shared words come first."""
        words = set(query.lower().split())
        shared = {title: len(words & set(text.lower().split())) for title, text in MINUTES.items()}
        best = sorted((title for title in shared if shared[title]), key=lambda title: -shared[title])
        return [
            make_evidence(text=MINUTES[title], title=title, source="council", query=query, score=shared[title])
            for title in best[:k]
        ]


minutes = Minutes()
