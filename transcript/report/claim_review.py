"""A debate as ClaimReview, the format of fact checks for search engines and archives (schema.org/ClaimReview)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from moot.core.errors import UserError
from moot.transcript.document import checked_parts
from moot.transcript.report.codes import answer_kind
from moot.transcript.report.head import verdict_chip
from moot.transcript.report.sources import plain

RATINGS = {"ref": 1, "sup": 5}
"""Ratings by kind of answer, from 1 (false) to 5 (true). The rating of any other kind has no number, only a text."""


def claim_review(document: Mapping[str, Any], publisher: str, url: str) -> str:
    """A debate's ClaimReview in JSON-LD."""
    check_publisher(publisher, url)
    with checked_parts():
        text = json.dumps(_review(document, publisher.strip(), url.strip()), ensure_ascii=False, indent=2)
    return text.replace("<", "\\u003c") + "\n"  # a closing tag would end the script of a page that embeds the JSON


def check_publisher(publisher: str, url: str) -> None:
    """Checks the publisher of a ClaimReview, and the address of its page."""
    if not publisher.strip():
        raise UserError("A ClaimReview needs a `publisher` (as an option: --publisher NAME).", kind="bad_request")
    try:
        parts = urlsplit(url.strip())
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and not any(map(str.isspace, url.strip()))
    except ValueError:
        fits = False
    if not fits:
        raise UserError(
            "A ClaimReview needs the `url` of the page that shows it, with http:// or https:// "
            "(as an option: --url URL).",
            kind="bad_request",
        )


def _review(document: Mapping[str, Any], publisher: str, url: str) -> dict[str, Any]:
    """The values of the ClaimReview."""
    task, answer = document["task"], document["answer"]
    if document["status"] != "done" or task is None or answer is None:
        raise UserError("This debate has no verdict, so it has no ClaimReview.", kind="bad_request")
    if task["subject"] != "claim" or task["kind"] != "labels":
        raise UserError("A ClaimReview needs a debate about a claim, with labels as answers.", kind="bad_request")
    kind = answer_kind(task, answer)
    rating: dict[str, Any] = {"@type": "Rating", "alternateName": verdict_chip(document).word}
    if kind in RATINGS:
        rating |= {"ratingValue": RATINGS[kind], "worstRating": 1, "bestRating": 5}
    item: dict[str, Any] = {"@type": "Claim", "name": plain(document["claim"])}
    if task.get("speaker"):
        item["author"] = {"@type": "Person", "name": plain(task["speaker"])}
    if task.get("claim_date"):
        item["datePublished"] = task["claim_date"]
    return {
        "@context": "https://schema.org",
        "@type": "ClaimReview",
        "url": url,
        "datePublished": f"{datetime.fromisoformat(document['started_at']).astimezone(UTC):%Y-%m-%d}",
        "claimReviewed": plain(document["claim"]),
        "author": {"@type": "Organization", "name": publisher},
        "publisher": {"@type": "Organization", "name": publisher},
        "itemReviewed": item,
        "reviewRating": rating,
    }
