"""Data as models see them: rows, sequences, streams, and data on other machines."""

from .remote import Remote
from .rows import Stream, Table
from .sequences import Sequences, SequenceStream

__all__ = ["Remote", "SequenceStream", "Sequences", "Stream", "Table"]
