from tests.container_engine import base, engine, world  # noqa: F401 - fixtures
