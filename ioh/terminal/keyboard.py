"""Turns the bytes of a terminal, whole or in pieces, into textual's events."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator

from textual import constants, events, messages
from textual._xterm_parser import XTermParser
from textual.message import Message

# The delay of the Esc key.  Terminals write a sequence in one piece, and most links keep it so.  If
# a link splits it, the Esc is taken back (NO_ESCAPE).
ESC_S = 0.015
# The wait for the rest of a paste or a sequence: a link may stop in the middle.
REST_S = 1.0
# This key means: the Esc before was the first byte of a sequence.
NO_ESCAPE = "no_escape"

_MAX_SEQUENCE = 64
_MAX_PASTE = 1 << 16
_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
_SEQUENCE = rb"\[M...|\[\[?[0-?]*[ -/]*[@-~]|O[ -~]"
_TOKEN = re.compile(rb"\x1b(?:" + _SEQUENCE + rb"|[^\[O\x1b])|[^\x1b]+", re.DOTALL)
_BEGIN = re.compile(rb"\x1b(?:\[M.{0,2}|\[\[?[0-?]*[ -/]*|O)?", re.DOTALL)
_LATE = re.compile(rb"\[\[?[0-9;]*[A-FHPQSZ~]|O[A-DFHP-S]")


class Keyboard:
    """Converts bytes to events; used by one thread.

    Textual 8.2.8's parser gets only whole sequences: it fails with a UnicodeDecodeError on invalid
    UTF-8, and needs 0.1 s to distinguish Esc from the start of a sequence.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        constants.ESCAPE_DELAY = 0.0  # type: ignore[misc]  # it gets whole sequences, see _parse
        self._clock = clock
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._parser = XTermParser()
        self._held = b""
        self._pasted: bytearray | None = None
        self._came_s = self._escaped_s = float("-inf")

    @property
    def timeout_s(self) -> float | None:
        """How long to wait for more bytes before tick(); None: forever."""
        if not self._held and self._pasted is None:
            return None
        patience_s = ESC_S if self._held == b"\x1b" and self._pasted is None else REST_S
        return max(0.0, self._came_s + patience_s - self._clock())

    def tick(self) -> Iterator[Message]:
        """End what was held back too long: Esc, a paste or a sequence without an end."""
        if self.timeout_s != 0:
            return
        held, self._held = self._held, b""
        if self._pasted is not None:
            yield self._end_paste()
        elif held == b"\x1b":
            self._escaped_s = self._clock()
            yield events.Key("escape", "\x1b")

    def feed(self, data: bytes) -> Iterator[Message]:
        """The events of these bytes and those held back before."""
        now_s = self._came_s = self._clock()
        if now_s - self._escaped_s < REST_S and not self._held and _LATE.match(data):
            data = b"\x1b" + data
            yield events.Key(NO_ESCAPE, None)
        self._escaped_s = float("-inf")
        data, self._held = self._held + data, b""
        at = 0
        while at < len(data):
            if self._pasted is not None:
                end = data.find(_PASTE_END, at)
                piece = data[at : end if end >= 0 else max(at, len(data) - len(_PASTE_END) + 1)]
                self._pasted += piece[: _MAX_PASTE - len(self._pasted)]
                if end < 0:
                    self._held = data[at + len(piece) :]
                    return
                at = end + len(_PASTE_END)
                yield self._end_paste()
                continue
            begin = _BEGIN.match(data, at)
            if begin is not None and begin.end() == len(data):
                self._held = data[at:] if len(data) - at <= _MAX_SEQUENCE else b""
                return
            token = _TOKEN.match(data, at)
            if token is not None:
                at = token.end()
                yield from self._parse(token[0])
            elif begin is not None:  # Esc before another one, or an invalid sequence
                at = begin.end()
                if begin[0] == b"\x1b":
                    yield events.Key("escape", "\x1b")

    def _end_paste(self) -> events.Paste:
        pasted, self._pasted = bytes(self._pasted or b""), None
        return events.Paste(pasted.decode(errors="replace").replace("\0", ""))

    def _parse(self, token: bytes) -> list[Message]:
        if token == _PASTE:
            self._pasted = bytearray()
            return []
        if token.startswith(b"\x1b[M"):  # an old mouse report, not requested
            return []
        text = self._decode(token)
        if not text:  # the start of a character
            return []
        try:
            found = list(self._parser.feed(text))
            late = list(self._parser.tick())
        except (ValueError, OverflowError):  # a number that is not a character
            self._parser = XTermParser()
            return []
        # An unknown sequence comes late, as the keys of its characters.
        is_sequence = token[:1] == b"\x1b" and token[1:2] in b"[O"
        sizes = (events.Resize, messages.InBandWindowResize)  # the true size comes from the kernel
        return [e for e in (found if is_sequence else found + late) if not isinstance(e, sizes)]
