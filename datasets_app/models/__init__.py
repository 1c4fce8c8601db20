"""Queries and all that is known about them, by subject."""

from datasets_app.models.figures import PoolFigures
from datasets_app.models.files import Import, ImportChunk, ImportProblem, LabelValue
from datasets_app.models.labeling import (
    Assignment,
    BulkChange,
    BulkChangeEntry,
    Draft,
    PeersSeen,
    QueueItem,
    QueueSettings,
    Submission,
    Suggestion,
)
from datasets_app.models.labels import Gold, GoldAgent, Label
from datasets_app.models.prelabeling import LlmAnswer, PrelabelItem, PrelabelJob, PromptTemplate
from datasets_app.models.queries import Dataset, Query, Split, SplitGroup, group_hash, hashes_of, text_hash
from datasets_app.models.snapshots import Snapshot, SnapshotContent
from datasets_app.models.traces import SpanBatch, SpanProblem, TracedTurn
from datasets_app.models.writing import WritingJob, WrittenQuery
