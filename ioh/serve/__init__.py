"""Serve the newest Sample and findings over HTTP, in Prometheus' formats."""
