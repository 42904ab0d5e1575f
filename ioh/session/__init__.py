"""The recording's file format and nothing else: Samples in, bytes out, and back."""
