"""The layers of the stack."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from ioh.layers.base import Layer

if TYPE_CHECKING:
    from ioh.bpf.probe import Probe


@cache
def all_layers() -> dict[str, type[Layer]]:
    """Import every module here; return its layer by name, application first, disk last."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    ranked = sorted(Layer.registry.values(), key=lambda layer: layer.spec.rank)
    return {layer.spec.name: layer for layer in ranked}


def find_layer(name: str) -> type[Layer]:
    """The layer of that name, importing others only if its module has another name."""
    if any(module.name == name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{name}")
    return Layer.registry.get(name) or all_layers()[name]


def find_probe(name: str) -> Probe:
    """The probe of the layer of that name; LookupError if it has none."""
    probe = find_layer(name).probe
    if probe is None:
        raise LookupError(name)
    return probe
