"""The only list of the public names of `moot.retrievers`; the documentation and tests are based on it."""

from ._corpus import index_passages as index_passages
from ._corpus import known_corpora as known_corpora
from ._encoders import open_encoder as open_encoder
from ._errors import MootError as MootError
from ._errors import ReplyError as ReplyError
from ._errors import UserError as UserError
from ._errors import WorldError as WorldError
from ._evidence import Evidence as Evidence
from ._evidence import Retrieval as Retrieval
from ._evidence import Retriever as Retriever
from ._evidence import make_evidence as make_evidence
from ._files import Passage as Passage
from ._files import read_passages as read_passages
from ._langchain_source import from_documents as from_documents
from ._search import open_retriever as open_retriever
