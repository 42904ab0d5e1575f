"""With whose rights ioh acts, and what it can still do once it has given root up."""
