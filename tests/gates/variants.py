"""Writes other forms of the corpus, to be judged like the corpus itself.

    python variants.py type fp16|bf16 OUT     every kernel with float32 and 16-bit tensors of
                                              that type; arithmetic stays in float32, as the
                                              compiler does it
    python variants.py rewritten SEED OUT     locals and helpers renamed, laid out anew, helpers
                                              and independent statements in another order; the
                                              verdicts must stay the same

A candidate says "# Types: fp32 ..." where it is wrong, or right, in some types only: an
error of a thousandth is none where the result keeps eight bits.
"""
from __future__ import annotations

import ast
import builtins
import hashlib
import json
import pathlib
import random
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
FLOATS = ("fp32", "fp16", "bf16")
KERNEL_SOURCE = re.compile(r"async_compile\.triton\('\w+', '''\n(.*?)\n?''', device_str", re.S)


def headers(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# (\w+): (.*)$", text, re.MULTILINE))


def split(text: str) -> tuple[str, str]:
    """The comment lines at the top, and what follows them."""
    lines = text.split("\n")
    count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(line + "\n" for line in lines[:count]), "\n".join(lines[count:])


def sources(module: str) -> list[str]:
    """The texts of the kernels of a generated module."""
    return KERNEL_SOURCE.findall(module)


def signature(source: str) -> dict[str, str]:
    """Triton's types of a kernel's arguments."""
    return ast.literal_eval(re.search(r"'signature': (\{.*?\})", source).group(1))


# --- Another float type.

class Loads(ast.NodeVisitor):
    """Ends of the loads of a float tensor that nothing widens yet."""

    def __init__(self, pointers: set[str]):
        self.pointers = pointers
        self.ends: list[tuple[int, int]] = []
        self.widened: set[ast.AST] = set()

    def visit_Assign(self, node: ast.Assign) -> None:
        # A pointer kept in a variable.
        if isinstance(node.value, ast.BinOp) and self._root(node.value) in self.pointers:
            self.pointers |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "to":
            self.widened.add(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func) == "tl.load" and node not in self.widened:
            if self._root(node.args[0]) in self.pointers:
                self.ends.append((node.end_lineno, node.end_col_offset))
        self.generic_visit(node)

    @staticmethod
    def _root(node: ast.expr) -> str:
        while isinstance(node, ast.BinOp):
            node = node.left
        return node.id if isinstance(node, ast.Name) else ""


def widen_loads(function: str, types: dict[str, str], was: str) -> str:
    """Loads give float32: as the compiler writes it for 16-bit tensors. `was` names the
    parameters' types before, so that 16-bit ones are left as they are."""
    try:
        tree = ast.parse(function)
    except SyntaxError:
        return function
    loads = Loads({name for name, kind in types.items() if kind == was})
    loads.visit(tree)
    lines = function.split("\n")
    for line, column in sorted(loads.ends, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + ".to(tl.float32)" + text[column:]
    return "\n".join(lines)


def retype_source(source: str, to: str) -> str:
    types = signature(source)
    head, mark, function = source.partition("@triton.jit\n")
    return retyped_names(head, to) + mark + widen_loads(function, types, "*fp32")


def retyped_names(text: str, to: str) -> str:
    return re.sub(r"'\*(fp32|fp16|bf16)'", f"'*{to}'", text)


def retype_capture(folder: pathlib.Path, out: pathlib.Path, to: str) -> dict[str, dict[str, str]]:
    """Writes the recording; gives the former types of each kernel's arguments."""
    capture = json.loads((folder / "capture.json").read_text())
    renamed, types = {}, {}
    (out / "modules").mkdir(parents=True)
    for old in capture["modules"]:
        module = (folder / "modules" / f"{old}.py").read_text()
        for source in sources(module):
            name = re.search(r"^def (\w+)\(", source, re.MULTILINE).group(1)
            types[name] = signature(source)
            module = module.replace(source, retype_source(source, to))
        renamed[old] = hashlib.sha256(module.encode()).hexdigest()
        (out / "modules" / f"{renamed[old]}.py").write_text(module)
    text = json.dumps(capture)
    for old, new in renamed.items():
        text = text.replace(old, new)
    capture = json.loads(text)
    for variant in capture["variants"]:
        size = {}
        for graph in variant["graphs"]:
            for event in graph["events"]:
                for argument in event.get("arguments", []):
                    tensor = argument.get("tensor", {})
                    if tensor.get("dtype") in FLOATS:
                        size[tensor["storage"]] = 4 if tensor["dtype"] == "fp32" else 2
                        tensor["dtype"] = to
        for storage in variant["storages"]:
            if size.get(storage["id"]) == 4:
                storage["bytes"] //= 2
    (out / "capture.json").write_text(json.dumps(capture, indent=1))
    return types


def write_type(to: str, out: pathlib.Path) -> None:
    types = retype_capture(HERE / "capture", out / "capture", to)
    for kind in ("bad", "good"):
        (out / kind).mkdir()
        for path in sorted((HERE / kind).glob("*.py")):
            text = path.read_text()
            header = headers(text)
            if to not in header.get("Types", " ".join(FLOATS)).split():
                continue
            head, body = split(text)
            body = widen_loads(body, types[header["Kernel"]], "*fp32")
            (out / kind / path.name).write_text(head + body)


# --- The same, written otherwise.

class Rename(ast.NodeTransformer):
    """Locals and helpers get other names; the entry's name and parameters are the compiler's."""

    def __init__(self, entry: str, kept: set[str], helpers: set[str], rng: random.Random):
        self.entry, self.kept, self.helpers, self.rng = entry, kept, helpers, rng
        self.names: dict[str, str] = {}

    def rename(self, name: str) -> str:
        if name in self.kept:
            return name
        if name not in self.names:
            self.names[name] = f"v{len(self.names)}_{self.rng.randrange(1000)}"
        return self.names[name]

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.assigned or node.id in self.helpers:
            node.id = self.rename(node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.assigned = {n.id for n in ast.walk(node)
                         if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        parameters = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        if node.name == self.entry:
            self.assigned -= {p.arg for p in parameters}
        else:
            node.name = self.rename(node.name)
            # Keywords of calls would have to follow, so parameters stay as they are.
            self.assigned -= {p.arg for p in parameters}
        node.body = [self.visit(statement) for statement in node.body]
        return node


def touches(node: ast.stmt) -> tuple[set[str], set[str]]:
    """Names that a statement reads and writes."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    return ({n.id for n in names if isinstance(n.ctx, ast.Load)},
            {n.id for n in names if isinstance(n.ctx, ast.Store)})


def shuffle(body: list[ast.stmt], rng: random.Random) -> None:
    """Swaps neighbours that are plain assignments and don't need each other."""
    for block in [body] + [s.body for s in body if isinstance(s, (ast.For, ast.If))]:
        for _ in range(2 * len(block)):
            at = rng.randrange(max(1, len(block) - 1))
            pair = block[at:at + 2]
            if len(pair) < 2 or not all(isinstance(s, ast.Assign) for s in pair):
                continue
            (reads_a, writes_a), (reads_b, writes_b) = map(touches, pair)
            if writes_a & (reads_b | writes_b) or writes_b & reads_a:
                continue
            block[at:at + 2] = reversed(pair)


def rewrite(text: str, seed: str) -> str:
    """Another text of the same meaning; one that is no Python stays."""
    head, body = split(text)
    rng = random.Random(seed)
    try:
        tree = ast.parse(body)
    except SyntaxError:
        return text
    entry = headers(text)["Kernel"]
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    helpers = {f.name for f in functions} - {entry}
    kept = {entry} | {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    kept |= set(dir(builtins))  # one that is given another meaning keeps it
    rename = Rename(entry, kept - helpers, helpers, rng)
    for function in functions:
        rename.visit(function)
        shuffle(function.body, rng)
    if len(functions) == len(tree.body):
        rng.shuffle(tree.body)
    return head + "\n" + "\n\n\n".join(map(ast.unparse, tree.body)) + "\n"


def write_rewritten(seed: str, out: pathlib.Path) -> None:
    (out / "capture").parent.mkdir(parents=True, exist_ok=True)
    (out / "capture").symlink_to(HERE / "capture")
    for kind in ("bad", "good"):
        (out / kind).mkdir()
        for path in sorted((HERE / kind).glob("*.py")):
            text = rewrite(path.read_text(), f"{seed} {path.name}")
            (out / kind / path.name).write_text(text)


def main() -> None:
    what, which, out = sys.argv[1:]
    if what == "type":
        write_type(which, pathlib.Path(out))
    elif what == "rewritten":
        write_rewritten(which, pathlib.Path(out))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
