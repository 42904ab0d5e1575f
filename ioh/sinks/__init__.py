"""Where Snapshots go: text and JSON; every sink follows the specs and knows no layer by name."""
