"""What the screen needs of whoever reads Samples; see ioh.model.feed."""

from ioh.model.feed import (
    Extent,
    Feed,
    FeedEnded,
    Mode,
    Moment,
    News,
    Overview,
    RecordingState,
)

__all__ = [
    "Extent",
    "Feed",
    "FeedEnded",
    "Mode",
    "Moment",
    "News",
    "Overview",
    "RecordingState",
]
