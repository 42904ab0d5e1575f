"""ioh, which notes apart each sample that it hands to its writer: `witnessed.py NOTES ARGUMENTS`.

The notes outlive a kill, as they lie in the page cache: what they hold and a recording lacks was
lost between the reading of the kernel and the file.
"""

from __future__ import annotations

import os
import sys

from ioh.commands import main
from ioh.model.sample import Sample
from ioh.session.writer import SessionWriter


def take_notes(path: str) -> None:
    """From now on write one line for each sample: its time."""
    notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    write = SessionWriter.write

    def noted(writer: SessionWriter, sample: Sample) -> bool:
        os.write(notes, f"{sample.time_unix_s!r}\n".encode())
        return write(writer, sample)

    SessionWriter.write = noted  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    take_notes(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
