"""A signal that comes while a module is imported."""

from __future__ import annotations

import os
import signal

from ioh.commands.run import Ending


class Named:
    def __set_name__(self, owner: type, name: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_while_a_class_is_made_ends_it_in_order() -> None:
    with Ending() as ending:
        type("Made", (), {"named": Named()})
    assert ending.received == signal.SIGTERM
