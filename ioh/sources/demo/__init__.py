"""A made-up load on all five layers: seeded, no root, no kernel; for a first look and for tests."""

from ioh.sources.demo.source import DemoSource

__all__ = ["DemoSource"]
