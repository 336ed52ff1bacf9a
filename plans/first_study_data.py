"""Makes the claims and passages of plans/first-study.yaml from their publishers' files.

    git clone https://github.com/MichSchli/AVeriTeC        (commit 7c62d1ec8d)
    git clone https://github.com/posuer/Check-COVID        (commit 3ae70f8cac)
    python first_study_data.py AVeriTeC Check-COVID FOLDER

FOLDER then has plans/data/averitec, plans/data/check_covid and passages. first-study.ids.json names the claims in their
order: for AVeriTeC by their places in dev.json.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> list[Any]:
    """The records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, records: Iterable[Any]) -> None:
    """Write a file of JSON lines, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def main(averitec: Path, check_covid: Path, folder: Path) -> None:
    """Write the two samples, and the two files of passages."""
    ids = json.loads(Path(__file__).with_name("first-study.ids.json").read_text(encoding="utf-8"))
    dev = json.loads((averitec / "data/dev.json").read_text(encoding="utf-8"))
    write_lines(folder / "plans/data/averitec/averitec.jsonl", (dev[place] for place in ids["averitec"]))
    passages = [
        {
            "id": f"averitec:{i}:{j}:{k}",
            "title": asked["question"],
            "text": " ".join(filter(None, (answer["answer"], answer.get("boolean_explanation")))).strip(),
            "source": f"AVeriTeC dev gold QA evidence ({answer['answer_type']})",
            **({"url": answer["source_url"]} if answer.get("source_url") else {}),
        }
        for i, record in enumerate(dev)
        for j, asked in enumerate(record["questions"])
        for k, answer in enumerate(asked["answers"])
        if answer["answer_type"] != "Unanswerable"
    ]
    write_lines(folder / "passages/averitec.jsonl", passages)

    root = check_covid / "Check-COVID"
    claims = {record["id"]: record for record in read_lines(root / "dev/covidCheck_dev_composed+extracted.json")}
    write_lines(folder / "plans/data/check_covid/check_covid.jsonl", (claims[id] for id in ids["check_covid"]))
    abstracts = {
        record["cord_id"]: (record["title"], record["abstract"], "corpus.json")
        for record in read_lines(root / "corpus.json")
    }
    for kind in ("test", "vespa_test", "vespa_test_auth"):
        for record in read_lines(root / f"variants_for_experiments/abstracts/abstract_retrieval_{kind}.jsonl"):
            for id, (title, *sentences) in (record["abstracts"] or {}).items():
                abstracts.setdefault(id, (title, sentences, "retrieved abstracts"))
    passages = [
        {
            "id": f"cord:{id}",
            "title": title,
            "text": " ".join(sentences),
            "source": f"CORD-19 abstract (Check-COVID {origin})",
        }
        for id, (title, sentences, origin) in abstracts.items()
    ]
    write_lines(folder / "passages/check_covid.jsonl", passages)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
