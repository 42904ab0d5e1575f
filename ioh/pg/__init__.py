"""A login to a PostgreSQL server: its own views, read by a thread of its own."""
