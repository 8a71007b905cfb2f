def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=1, help="of the kills that are drawn")
    parser.addoption("--kills", type=int, default=200, help="how many runs are killed")
