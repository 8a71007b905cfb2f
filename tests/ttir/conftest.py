import pytest

from built import built


@pytest.fixture(scope="session")
def tool() -> str:
    return built("ttir/ttir_tool")
