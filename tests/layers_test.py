"""The source tree keeps the rules of docs/architecture.md and docs/coding.md.

Who may use whom is read from the block in docs/architecture.md, so that the
text and the check can't differ. Includes are checked one by one; DEPS are what
CMake links, and an include must be covered by them.
"""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def for_tests(text: str) -> set[str]:
    """The folders that only tests may use."""
    return set(re.findall(r"^tests: (\w+)$", text, re.MULTILINE))


def allowed_uses(text: str) -> dict[str, set[str]]:
    """Folder -> folders it may use, from the block under 'Who may use whom'."""
    block = re.search(r"## Who may use whom\n```\n(.*?)```", text, re.DOTALL).group(1)
    chain_lines, also, only = [], [], []
    for line in block.splitlines():
        if line.startswith("also: "):
            also.append(line[6:])
        elif line.startswith("only: "):
            only.append(line[6:])
        elif line.startswith("tests: "):
            pass  # see FOR_TESTS
        else:
            chain_lines.append(line)
    levels = [re.findall(r"\w+", level) for level in " ".join(chain_lines).split("->")]
    uses: dict[str, set[str]] = {}
    for i, level in enumerate(levels):
        below = {folder for lower in levels[i + 1:] for folder in lower}
        for folder in level:
            uses[folder] = set(below)
    for line in also:
        folder, target = (part.strip() for part in line.split("->"))
        uses[folder].add(target)
    for line in only:
        folder, targets = (part.strip() for part in line.split("->"))
        uses[folder] = set(re.findall(r"\w+", targets))
    # A folder that is not in the chain can be used by the two at its top.
    in_chain = {folder for level in levels for folder in level}
    for folder in set(uses) - in_chain - for_tests(text):
        for top in levels[0] + levels[1]:
            uses[top].add(folder)
    return uses


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
ALLOWED = allowed_uses(ARCHITECTURE)
FOR_TESTS = for_tests(ARCHITECTURE)
FOLDERS = sorted(p.name for p in SRC.iterdir() if p.is_dir())


def sources(folder: str) -> list[pathlib.Path]:
    return sorted(p for p in (SRC / folder).rglob("*") if p.suffix in (".h", ".cc"))


def includes(path: pathlib.Path) -> list[tuple[str, str]]:
    """('<' or '"', name) of each #include."""
    return INCLUDE.findall(path.read_text())


def deps(folder: str) -> set[str]:
    """What the folder's CMakeLists.txt gives as DEPS, or links by name.

    A folder of headers for tests has none.
    """
    if folder in FOR_TESTS:
        return set()
    text = (SRC / folder / "CMakeLists.txt").read_text()
    named = re.search(r"\bDEPS\s+([\w\s]*?)(?:\bLIBS\b|\))", text)
    linked = set(re.findall(r"\bkernelopt_(\w+)", text)) & set(FOLDERS)
    return (set(named.group(1).split()) if named else set()) | linked - {folder}


def reachable(folder: str) -> set[str]:
    """The folder's DEPS and theirs."""
    seen: set[str] = set()
    todo = [folder]
    while todo:
        for dep in deps(todo.pop()) - seen:
            seen.add(dep)
            todo.append(dep)
    return seen


def ours(*patterns: str) -> list[pathlib.Path]:
    """Files of the project that match, committed or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for name in listed if (path := ROOT / name).is_file()]


def test_block_is_read():
    assert "base" in ALLOWED["cli"] and "judge" in ALLOWED["gates"]
    assert "inductor" not in ALLOWED["judge"] and "judge" not in ALLOWED["inductor"]
    assert "program" in ALLOWED["device"] and "device" not in ALLOWED["program"]
    assert ALLOWED["report"] == {"store", "base"} and "store" not in ALLOWED["workers"]
    assert "report" in ALLOWED["cli"] and "report" not in ALLOWED["agents"]
    assert ALLOWED["base"] == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_is_in_the_order_and_in_the_table(folder):
    assert folder in ALLOWED
    assert f"| src/{folder} |" in ARCHITECTURE


@pytest.mark.parametrize("folder", FOLDERS)
def test_deps_obey_the_order(folder):
    assert deps(folder) <= ALLOWED[folder], f"src/{folder}/CMakeLists.txt: DEPS go upwards"


@pytest.mark.parametrize("folder", FOLDERS)
def test_includes_obey_the_order_and_the_deps(folder):
    linked = ALLOWED[folder] if folder in FOR_TESTS else reachable(folder) | {folder}
    wrong = []
    for path in sources(folder):
        for _, name in includes(path):
            used = name.split("/")[0]
            if used in FOR_TESTS and path.name.endswith("_test.cc"):
                continue
            if used in FOLDERS and used != folder:
                if used not in ALLOWED[folder]:
                    wrong.append(f"{path.relative_to(ROOT)} includes {name}: not allowed")
                elif used not in linked:
                    wrong.append(f"{path.relative_to(ROOT)} includes {name}: not in DEPS")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", FOLDERS)
def test_outside_headers_stay_where_they_belong(folder):
    wrong = []
    for path in sources(folder):
        for _, name in includes(path):
            if name.startswith("tree_sitter") and folder != "syntax":
                wrong.append(f"{path.name}: {name} is for src/syntax alone")
            if name.startswith("CLI") and folder != "cli":
                wrong.append(f"{path.name}: {name} is for src/cli alone")
            if name.lower().startswith(("sqlite", "sqlitecpp")) and folder != "store":
                wrong.append(f"{path.name}: {name} is for src/store alone")
    assert not wrong, "\n".join(wrong)


def test_the_slow_json_header_stays_in_cc_files():
    """A header that includes it may itself be included by .cc files alone."""
    headers = {path: {name for _, name in includes(path)}
               for folder in FOLDERS if folder not in FOR_TESTS
               for path in sources(folder) if path.suffix == ".h"}
    slow = {str(path.relative_to(SRC)) for path, used in headers.items()
            if "nlohmann/json.hpp" in used}
    wrong = [f"{path.relative_to(SRC)} includes {name}, and so nlohmann/json.hpp"
             for path, used in headers.items() for name in used & slow]
    assert not wrong, "\n".join(wrong) + "\na header takes base/json.h"


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_with_code_has_tests(folder):
    code = [p for p in sources(folder) if p.suffix == ".cc" and not p.name.endswith("_test.cc")]
    tests = [p for p in sources(folder) if p.name.endswith("_test.cc")]
    assert tests or not code, f"src/{folder} has code and no *_test.cc"


@pytest.mark.parametrize("folder", FOLDERS)
def test_headers_begin_with_a_comment(folder):
    bare = [p.name for p in sources(folder)
            if p.suffix == ".h" and not p.read_text().startswith("//")]
    assert not bare, f"no first comment in {bare}"


def test_the_project_speaks_of_itself_alone():
    """No word of where or by what it was written, in any text of the project."""
    words = ["." + "library", "/" + "work/", "sub" + "agent", "work" + "place"]
    wrong = []
    for path in ours("*"):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        wrong += [f"{path.relative_to(ROOT)}: {word}" for word in words if word in text]
    assert not wrong, "\n".join(wrong)


def test_no_benchmark_problem_is_named_in_the_product():
    """Nothing in the product may know which benchmark problem it is looking at."""
    named = re.compile(r"(kernelbench|\bproblems?\b|\blevel\s*[123]\b)[^\n]{0,20}\b\d{1,3}\b",
                       re.IGNORECASE)
    wrong = []
    for path in ours("src", "python"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if named.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def test_every_python_test_file_is_collected():
    """pytest takes test_*.py and *_test.py by name; a file with tests has such a name."""
    for path in ours("tests/*.py", "tests/**/*.py"):
        if re.search(r"^ *def test_", path.read_text(), re.MULTILINE):
            assert re.fullmatch(r"test_.*|.*_test", path.stem), (
                f"{path.relative_to(ROOT)} holds tests and would not be run")


THROWING = re.compile(
    r"\b(?:fs|filesystem)::(?:exists|is_\w+|status|symlink_status|remove|remove_all|file_size|"
    r"create_director(?:y|ies)|create_\w*symlink|rename|copy|copy_file|canonical|absolute|"
    r"read_symlink|space|last_write_time|(?:recursive_)?directory_iterator)\("
    r"((?:[^(),;]|\((?:[^()]|\([^()]*\))*\))*)\)")


def throwing_calls(text: str) -> list[str]:
    """Calls of std::filesystem with one argument: those throw where the path is strange."""
    return [match.group(0) for match in THROWING.finditer(re.sub(r"//.*", "", text)) if match.group(1).strip()]


def test_no_call_of_filesystem_throws():
    """An exception would end the program with no sentence (docs/coding.md)."""
    assert throwing_calls("x = fs::exists(folder + Name(a, b));") == ["fs::exists(folder + Name(a, b))"]
    assert throwing_calls("std::filesystem::is_directory(path, error)") == []
    assert throwing_calls("fs::remove_all(made, ignored); fs::path(x)") == []
    found = {}
    for path in sorted(SRC.rglob("*.cc")) + sorted(SRC.rglob("*.h")):
        if path.name.endswith("_test.cc") or path.parent.name in FOR_TESTS or "test" in path.name:
            continue
        calls = throwing_calls(path.read_text())
        if calls:
            found[str(path.relative_to(ROOT))] = calls
    assert found == {}
