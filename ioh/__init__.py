"""ioh: a live I/O monitor that stacks a server's I/O layers."""

__version__ = "0.1.0"
