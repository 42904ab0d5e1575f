"""The screen: the only package that knows textual; it sees Snapshots, never the kernel."""
