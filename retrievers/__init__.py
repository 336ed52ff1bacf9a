"""Sources of evidence with one protocol, text encoders, and corpora on disk."""

from moot.core.errors import MootError, ReplyError, UserError, WorldError
from moot.retrievers.corpus import DEMO_CORPORA, index_passages, known_corpora
from moot.retrievers.encoders import DEFAULT_ENCODER, Encoder, open_encoder, vectors_of
from moot.retrievers.evidence import Evidence, Retrieval, Retriever, make_evidence, merge_evidence
from moot.retrievers.files import Passage, read_passages
from moot.retrievers.gather import Finding, search_all
from moot.retrievers.langchain_source import from_documents
from moot.retrievers.normalise import Rules, normalise
from moot.retrievers.search import open_retriever
from moot.retrievers.stores import Manifest

__all__ = [
    "DEFAULT_ENCODER",
    "DEMO_CORPORA",
    "Encoder",
    "Evidence",
    "Finding",
    "Manifest",
    "MootError",
    "Passage",
    "ReplyError",
    "Retrieval",
    "Retriever",
    "Rules",
    "UserError",
    "WorldError",
    "from_documents",
    "index_passages",
    "known_corpora",
    "make_evidence",
    "merge_evidence",
    "normalise",
    "open_encoder",
    "open_retriever",
    "read_passages",
    "search_all",
    "vectors_of",
]
