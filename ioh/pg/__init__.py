"""Read a PostgreSQL server's statistics views in a separate thread."""
