"""What a terminal sends, as textual's events: any bytes, whole or in pieces."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator

from textual import constants, events, messages
from textual._xterm_parser import XTermParser
from textual.message import Message

# A terminal writes a sequence in one piece, and links mostly keep it so.  Whoever presses Esc waits
# that long; where a link has split a sequence all the same, the Esc is taken back (NO_ESCAPE).
ESC_S = 0.015
# What cannot be Esc, or is pasted, has time to come: a link may stand still in the midst of it.
REST_S = 1.0
# The key that says that the Esc before it was the first byte of a sequence.
NO_ESCAPE = "no_escape"

_MAX_SEQUENCE = 64
_MAX_PASTE = 1 << 16
_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
_SEQUENCE = rb"\[M...|\[\[?[0-?]*[ -/]*[@-~]|O[ -~]"
_TOKEN = re.compile(rb"\x1b(?:" + _SEQUENCE + rb"|[^\[O\x1b])|[^\x1b]+", re.DOTALL)
_BEGIN = re.compile(rb"\x1b(?:\[M.{0,2}|\[\[?[0-?]*[ -/]*|O)?", re.DOTALL)
_LATE = re.compile(rb"\[\[?[0-9;]*[A-FHPQSZ~]|O[A-DFHP-S]")


class Keyboard:
    """Bytes to events; used by one thread.

    The parser of textual 8.2.8 gets whole sequences only: it ends with a UnicodeDecodeError at
    bytes that are no UTF-8, and takes a tenth of a second to know Esc from the begin of a sequence.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        constants.ESCAPE_DELAY = 0.0  # type: ignore[misc]  # what it holds back is over, see _parse
        self._clock = clock
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._parser = XTermParser()
        self._held = b""
        self._pasted: bytearray | None = None
        self._came_s = self._escaped_s = float("-inf")

    @property
    def timeout_s(self) -> float | None:
        """How long to wait for more bytes before tick(); None for ever."""
        if not self._held and self._pasted is None:
            return None
        patience_s = ESC_S if self._held == b"\x1b" and self._pasted is None else REST_S
        return max(0.0, self._came_s + patience_s - self._clock())

    def tick(self) -> Iterator[Message]:
        """What was held back too long: Esc; the end of a paste or a sequence that never came."""
        if self.timeout_s != 0:
            return
        held, self._held = self._held, b""
        if self._pasted is not None:
            yield self._end_paste()
        elif held == b"\x1b":
            self._escaped_s = self._clock()
            yield events.Key("escape", "\x1b")

    def feed(self, data: bytes) -> Iterator[Message]:
        """What these bytes are, with those held back before."""
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
            elif begin is not None:  # Esc before another one, or a sequence that is none
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
        if token.startswith(b"\x1b[M"):  # a mouse's report of the old kind, which nobody asked for
            return []
        text = self._decode(token)
        if not text:  # the begin of a character
            return []
        try:
            found = list(self._parser.feed(text))
            late = list(self._parser.tick())
        except (ValueError, OverflowError):  # a number that is no character, or of no width
            self._parser = XTermParser()
            return []
        # A sequence that it does not know comes late, as the keys that its characters would be.
        is_sequence = token[:1] == b"\x1b" and token[1:2] in b"[O"
        return [e for e in (found if is_sequence else found + late) if not _is_size(e)]


def _is_size(event: Message) -> bool:
    """A size that was typed: the kernel knows the terminal's own."""
    return isinstance(event, (events.Resize, messages.InBandWindowResize))
