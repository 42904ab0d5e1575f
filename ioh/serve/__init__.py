"""The newest Sample and findings over HTTP; the only package that knows prometheus_client."""
