"""Where Samples come from."""
