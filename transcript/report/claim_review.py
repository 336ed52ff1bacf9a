"""A debate as ClaimReview, the format of fact checks for search engines and archives (schema.org/ClaimReview)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from moot.core.errors import UserError
from moot.core.fingerprints import moot_version
from moot.core.reviews import Entry, History, house_scale
from moot.transcript.document import checked_parts
from moot.transcript.report.codes import answer_kind
from moot.transcript.report.head import verdict_chip
from moot.transcript.report.sources import plain, web_address

RATINGS = {"ref": 1, "sup": 5}
"""Ratings by kind of answer, from 1 (false) to 5 (true). The rating of any other kind has no number, only a text."""


def claim_review(
    document: Mapping[str, Any], publisher: str, url: str, history: History, *, unreviewed: bool = False
) -> str:
    """A check's ClaimReview in JSON-LD: an editor's, if the check is approved.

    Another check has one only if it is asked for as ``unreviewed``: its author is then the software, and its rating the
    machine's verdict. A withdrawn check has none.
    """
    check_publisher(publisher, url)
    entry = history.decided
    if history.stage == "withdrawn":
        raise UserError("This check was withdrawn, so it has no ClaimReview.", kind="bad_request")
    if entry is None and not unreviewed:
        raise UserError(
            f"Nobody has approved this check: `moot review {document['id'][:8]} --approve ...`. Or ask for the "
            "machine's own ClaimReview, with --unreviewed: it names the software as its author.",
            kind="bad_request",
        )
    with checked_parts():
        found = _review(document, publisher.strip(), url.strip())
        if entry is None:
            found |= _of_software(document)
        else:
            approved = next(one.at for one in reversed(history) if one.action == "approve")
            found |= _of_editor(entry, approved, publisher.strip())
            if history.last and history.last.look_again:
                found["expires"] = history.last.look_again.isoformat()
    text = json.dumps(found, ensure_ascii=False, indent=2)
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


def _of_software(document: Mapping[str, Any]) -> dict[str, Any]:
    """The author, rating and date of the ClaimReview of a check that nobody approved."""
    task, answer = document["task"], document["answer"]
    if document["status"] != "done" or task is None or answer is None:
        raise UserError("This debate has no verdict, so it has no ClaimReview.", kind="bad_request")
    if task["subject"] != "claim" or task["kind"] != "labels":
        raise UserError("A ClaimReview needs a debate about a claim, with labels as answers.", kind="bad_request")
    rating: dict[str, Any] = {"@type": "Rating", "alternateName": verdict_chip(document).word}
    if (kind := answer_kind(task, answer)) in RATINGS:
        rating |= {"ratingValue": RATINGS[kind], "worstRating": 1, "bestRating": 5}
    return {
        "author": {"@type": "SoftwareApplication", "name": "moot", "softwareVersion": moot_version()},
        "datePublished": f"{datetime.fromisoformat(document['started_at']).astimezone(UTC):%Y-%m-%d}",
        "reviewRating": rating,
    }


def _of_editor(entry: Entry, approved: datetime, publisher: str) -> dict[str, Any]:
    """The author, rating, dates and words of the ClaimReview of a check that an editor approved."""
    scale = house_scale()
    rating: dict[str, Any] = {"@type": "Rating", "alternateName": entry.rating}
    values = [step.value for step in scale.steps if step.value is not None]
    if (value := scale.step(entry.rating).value) is not None:
        rating |= {"ratingValue": value, "worstRating": min(values), "bestRating": max(values)}
    found: dict[str, Any] = {
        "author": {"@type": "Organization", "name": publisher},
        "editor": {"@type": "Person", "name": entry.person},
        "datePublished": f"{approved:%Y-%m-%d}",
        "reviewRating": rating,
        "reviewBody": plain(entry.summary),
    }
    found |= {"headline": plain(entry.title)} if entry.title else {}
    if entry.stage == "corrected":
        found |= {"dateModified": f"{entry.at:%Y-%m-%d}", "correction": plain(entry.to_readers)}
    return found


def _review(document: Mapping[str, Any], publisher: str, url: str) -> dict[str, Any]:
    """What all ClaimReviews of a check have."""
    task = document["task"] or {}
    item: dict[str, Any] = {"@type": "Claim"}  # Google's tools take its `name` for the place where it was made
    if task.get("speaker"):
        item["author"] = {"@type": "Person", "name": plain(task["speaker"])}
    if task.get("claim_date"):
        item["datePublished"] = task["claim_date"]
    if address := web_address(task.get("appeared_at")):
        item["appearance"] = {"@type": "CreativeWork", "url": address}
    return {
        "@context": "https://schema.org",
        "@type": "ClaimReview",
        "url": url,
        "claimReviewed": plain(document["claim"]),
        "publisher": {"@type": "Organization", "name": publisher},
        "itemReviewed": item,
    }
