"""Every command and server of these tests keeps its runs in PostgreSQL."""

from on_postgres import store_cluster, store_database, store_in_postgres, store_url  # noqa: F401 - fixtures
