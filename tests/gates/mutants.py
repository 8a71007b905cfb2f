"""Makes mutants: kernels with one small fault, each planted by an operator on the syntax tree.

    python mutants.py SEED OUT [--each N] [--bases FOLDER ...]

Bases are, of each corpus folder (by default this one and its forms in float16 and bfloat16,
variants.py), the kernels of its recording and its good candidates that are written by hand.
OUT gets mutants/*.py, files like those of bad/ and good/, and mutants.jsonl: one line each
with id, operator, base, kernel, line, change, corpus and file. At most N an operator (260),
spread over the bases; the same seed gives the same mutants.

Which of them count (compiled, and to another TTIR than their base) and what the gates say is
gate_corpus_gpu_test's to find out (README.md).
"""
from __future__ import annotations

import argparse
import ast
import json
import pathlib
import random
import re
from collections.abc import Iterator

import variants

HERE = pathlib.Path(__file__).resolve().parent
NUMBER = (int, float)
REDUCTIONS = {
    "tl.sum": ("tl.max", "tl.min"),
    "triton_helpers.max2": ("triton_helpers.min2", "tl.sum"),
    "triton_helpers.maximum": ("triton_helpers.minimum",),
    "triton_helpers.minimum": ("triton_helpers.maximum",),
    "triton_helpers.maximum_with_index": ("triton_helpers.minimum_with_index",),
    "triton_helpers.max_with_index": ("triton_helpers.min_with_index",),
}
FUNCTIONS = {
    "libdevice.exp": ("libdevice.exp2", "libdevice.expm1", "tl_math.exp"),
    "libdevice.rsqrt": ("libdevice.sqrt", "1.0 / "),
    "libdevice.tanh": ("libdevice.erf", "tl.sigmoid"),
    "libdevice.erf": ("libdevice.tanh", "libdevice.erfc"),
    "tl_math.log": ("libdevice.log1p", "libdevice.log2"),
    "tl.sigmoid": ("libdevice.tanh", "libdevice.erf"),
}
SWAPS = {ast.Add: "-*", ast.Sub: "+*", ast.Mult: "+/", ast.Div: "*+"}


class Base:
    """A kernel's text to plant faults in; edits are (from, to, new text)."""

    def __init__(self, name: str, corpus: str, kernel: str, header: str, text: str):
        self.name, self.corpus, self.kernel, self.header, self.text = (
            name, corpus, kernel, header, text)
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.parents = {child: node for node in ast.walk(self.tree)
                        for child in ast.iter_child_nodes(node)}
        self.entry = next(n for n in self.tree.body if isinstance(n, ast.FunctionDef)
                          and n.name == kernel)
        self.pointers = {a.arg for a in self.entry.args.args if "ptr" in a.arg}
        self.nodes = [n for n in ast.walk(self.entry) if hasattr(n, "lineno")]
        self.values = [s.value for s in ast.walk(self.entry) if isinstance(s, ast.Assign)
                       and isinstance(s.targets[0], ast.Name)
                       and s.targets[0].id.lstrip("_").startswith("tmp")]

    @property
    def file(self) -> str:
        return f"bases/{self.name.replace(':', '_')}.py"

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (self.starts[node.lineno - 1] + node.col_offset,
                self.starts[node.end_lineno - 1] + node.end_col_offset)

    def source(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.text[begin:end]

    def calls(self, *names: str) -> Iterator[ast.Call]:
        for node in self.nodes:
            if isinstance(node, ast.Call) and (not names or ast.unparse(node.func) in names):
                yield node

    def is_address(self, node: ast.AST) -> bool:
        """Inside the pointer of a load or store."""
        while node in self.parents:
            parent = self.parents[node]
            if isinstance(parent, ast.Call) and ast.unparse(parent.func) in ("tl.load", "tl.store"):
                return bool(parent.args) and parent.args[0] is node
            node = parent
        return False

    def assigned(self, node: ast.AST) -> str:
        """The name that the statement around a node assigns."""
        while node in self.parents and not isinstance(node, ast.stmt):
            node = self.parents[node]
        return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""

    def is_integer_work(self, node: ast.AST) -> bool:
        """Indices, masks and launch geometry rather than values."""
        name = self.assigned(node)
        return self.is_address(node) or not name or bool(
            re.match(r"x\d*$|x?index|xoffset|r\d*_?|r$|row|rindex|roffset|x?numel|rnumel|[xr]mask|"
                     r"r0_|keep|R0_BLOCK|RBLOCK|p\d?$", name))


Edit = tuple[ast.AST, int, int, str]


def replaced(base: Base, node: ast.AST, text: str) -> Edit:
    return (node, *base.span(node), text)


def arithmetic(base: Base) -> Iterator[Edit]:
    """Another operator between two values, or one of them alone."""
    for node in base.nodes:
        if not isinstance(node, ast.BinOp) or type(node.op) not in SWAPS:
            continue
        if base.is_integer_work(node):
            continue
        left, right = base.source(node.left), base.source(node.right)
        for operator in SWAPS[type(node.op)]:
            yield replaced(base, node, f"({left} {operator} {right})")
        yield replaced(base, node, f"({left})")
        yield replaced(base, node, f"({right})")
        if isinstance(node.op, (ast.Sub, ast.Div)):
            sign = "-" if isinstance(node.op, ast.Sub) else "/"
            yield replaced(base, node, f"({right} {sign} {left})")


def constant(base: Base) -> Iterator[Edit]:
    """Another number among the values."""
    for node in base.nodes:
        if not isinstance(node, ast.Constant) or type(node.value) not in NUMBER:
            continue
        parent = base.parents[node]
        if base.is_integer_work(node) or isinstance(parent, (ast.List, ast.Slice, ast.keyword)):
            continue
        if isinstance(parent, ast.Call) and ast.unparse(parent.func) in (
                "tl.arange", "tl.zeros", "tl.sum", "tl.program_id", "triton_helpers.max2",
                "triton_helpers.welford", "triton_helpers.max_with_index", "tl.range",
                "triton_helpers.online_softmax_reduce"):
            continue
        value = node.value
        changes = {value + 1, value - 1, 2 * value, -value, 0 * value}
        if isinstance(value, float):
            changes |= {value * 1.01, value * 1.001, value * 0.5, value * 1.1}
        for change in sorted(changes - {value}, key=repr):
            yield replaced(base, node, f"({change!r})")


def mask(base: Base) -> Iterator[Edit]:
    """A comparison off by one or turned, half of a mask, none."""
    for node in base.nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = base.source(node.left), base.source(node.comparators[0])
            if isinstance(node.ops[0], (ast.Lt, ast.LtE)):
                for change in (f"{left} <= {right}", f"{left} < {right} - 1",
                               f"{left} < {right} + 1", f"{left} >= {right}",
                               f"{left} < {right} // 2", f"{left} > 0"):
                    yield replaced(base, node, f"({change})")
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            yield replaced(base, node, f"({base.source(node.left)})")
            yield replaced(base, node, f"({base.source(node.right)})")
    for node in base.calls("tl.load", "tl.store"):
        at = 1 if ast.unparse(node.func) == "tl.load" else 2
        if len(node.args) > at:
            others = [k for k in node.keywords if k.arg == "other"]
            if not others:
                yield replaced(base, node.args[at], "None")
    for node in base.calls("tl.where"):
        yield replaced(base, node, f"({base.source(node.args[1])})")


def offset(base: Base) -> Iterator[Edit]:
    """A load or store beside its place."""
    for node in base.calls("tl.load", "tl.store"):
        pointer = base.source(node.args[0])
        for change in ("+ 1", "- 1", "+ 16", "- 7"):
            yield replaced(base, node.args[0], f"({pointer} {change})")
        terms, stack = [], [node.args[0]]
        while stack:
            term = stack.pop()
            if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Add):
                stack += [term.left, term.right]
            else:
                terms.append(term)
        for term in terms:
            if isinstance(term, ast.Name) and term.id in base.pointers:
                continue
            yield replaced(base, term, "0 * (" + base.source(term) + ")")
            yield replaced(base, term, "(" + base.source(term) + ") // 2")


def index(base: Base) -> Iterator[Edit]:
    """Strides, periods and dimensions of an index."""
    for node in base.nodes:
        if not isinstance(node, ast.BinOp) or not base.is_integer_work(node):
            continue
        left, right = base.source(node.left), base.source(node.right)
        if isinstance(node.op, ast.Mod):
            yield replaced(base, node, f"({left} // {right})")
            yield replaced(base, node, f"({left})")
        if isinstance(node.op, ast.FloorDiv):
            yield replaced(base, node, f"({left} % {right})")
        for side in (node.left, node.right):
            if (isinstance(side, ast.Constant) and type(side.value) is int and side.value > 1
                    and isinstance(node.op, (ast.Mult, ast.Mod, ast.FloorDiv))):
                for change in (side.value + 1, side.value - 1, side.value // 2, 2 * side.value):
                    yield replaced(base, side, str(change))


def dtype(base: Base) -> Iterator[Edit]:
    """A narrower type, in a declaration or in the middle of the values."""
    for node in base.nodes:
        if isinstance(node, ast.Attribute) and base.source(node) in ("tl.float32", "tl.int64"):
            wide = base.source(node)
            for name in (("tl.float16", "tl.bfloat16") if wide == "tl.float32" else
                         ("tl.int32", "tl.int16", "tl.int8")):
                yield replaced(base, node, name)
    for value in base.values:
        if isinstance(value, ast.Call) and ast.unparse(value.func) in ("tl.full", "tl.zeros"):
            continue
        source = base.source(value)
        yield replaced(base, value, f"({source}).to(tl.float16).to(tl.float32)")
        yield replaced(base, value, f"({source}).to(tl.bfloat16).to(tl.float32)")
        # Thirteen bits less, as a dot in TensorFloat-32 takes its inputs.
        yield replaced(base, value, f"(({source}).to(tl.int32, bitcast=True) & -8192)"
                                    ".to(tl.float32, bitcast=True)")


def pad(base: Base) -> Iterator[Edit]:
    """What masked lanes hold."""
    values = ("0.0", "1.0", "-1.0", "0.5", "1e-3", "float('-inf')", "float('inf')")
    for node in base.nodes:
        if isinstance(node, ast.keyword) and node.arg == "other":
            for value in values:
                yield replaced(base, node.value, value)
    for node in base.calls("tl.where"):
        if isinstance(node.args[2], (ast.Constant, ast.Call, ast.UnaryOp)):
            for value in values:
                yield replaced(base, node.args[2], value)
    for node in base.calls("tl.load"):
        if len(node.args) > 1 and not any(k.arg == "other" for k in node.keywords):
            if base.source(node.args[1]) != "None":
                end = base.span(node)[1] - 1
                for value in ("0.0", "1.0"):
                    yield (node, end, end, f", other={value}")


def identity(base: Base) -> Iterator[Edit]:
    """What an accumulation starts from."""
    values = ("0", "1", "-1", "1e-3", "-0.5", "3", "1e30", "float('-inf')", "float('inf')",
              "2147483647")
    for node in base.calls("tl.full", "tl.zeros"):
        shape = base.source(node.args[0])
        if shape in ("[1]", "[1, 1]") or base.is_integer_work(node):
            continue
        kind = base.source(node.args[-1])
        for value in values:
            yield replaced(base, node, f"tl.full({shape}, {value}, {kind})")


def reduction(base: Base) -> Iterator[Edit]:
    """Another reduction or function."""
    for table in (REDUCTIONS, FUNCTIONS):
        for node in base.calls(*table):
            for name in table[ast.unparse(node.func)]:
                yield replaced(base, node.func, name)
    for node in base.calls("tl.sum", "triton_helpers.max2", "triton_helpers.welford"):
        # Of something else.
        value = base.source(node.args[0])
        if "welford" in base.source(node.func):
            yield replaced(base, node.args[0], base.source(node.args[1]))
        else:
            yield replaced(base, node.args[0], f"({value}) * 2")
            yield replaced(base, node.args[0], f"-({value})")


def statement(base: Base) -> Iterator[Edit]:
    """A statement left out, or an operand mistaken for another."""
    for node in ast.walk(base.entry):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func) == "tl.store":
                yield replaced(base, node, "pass")
    seen: list[str] = []
    for node in sorted((n for n in base.nodes if isinstance(n, ast.Name)),
                       key=lambda n: (n.lineno, n.col_offset)):
        if isinstance(node.ctx, ast.Store):
            if re.match(r"_?tmp\d+", node.id):
                seen.append(node.id)
        elif re.match(r"_?tmp\d+", node.id):
            for other in seen[-3:]:
                if other != node.id:
                    yield replaced(base, node, other)


def barrier(base: Base) -> Iterator[Edit]:
    """No barrier."""
    for node in ast.walk(base.entry):
        if isinstance(node, ast.Expr) and "barrier" in base.source(node):
            yield replaced(base, node, "pass")


OPERATORS = (arithmetic, constant, mask, offset, index, dtype, pad, identity, reduction,
             statement, barrier)


def bases_of(folder: pathlib.Path, corpus: str) -> Iterator[Base]:
    for path in sorted((folder / "capture/modules").glob("*.py")):
        for source in variants.sources(path.read_text()):
            text = "@triton.jit\n" + source.partition("@triton.jit\n")[2] + "\n"
            kernel = re.search(r"^def (\w+)\(", text, re.MULTILINE).group(1)
            yield Base(f"{folder.name}:{kernel}", corpus, kernel, "", text)
    for path in sorted((folder / "good").glob("hand_*.py")):
        text = path.read_text()
        header = variants.headers(text)
        _, body = variants.split(text)
        configuration = f"# Configuration: {header['Configuration']}\n" \
            if "Configuration" in header else ""
        yield Base(f"{folder.name}:{path.stem}", corpus, header["Kernel"], configuration,
                   body.strip("\n") + "\n")


def mutants(bases: list[Base], seed: str, each: int) -> Iterator[dict]:
    for operator in OPERATORS:
        rng = random.Random(f"{seed} {operator.__name__}")
        by_base = []
        for base in bases:
            texts = {}
            for node, begin, end, change in operator(base):
                text = base.text[:begin] + change + base.text[end:]
                if text != base.text:
                    texts.setdefault(text, (node.lineno, base.text[begin:end], change))
            found = sorted(texts.items(), key=lambda item: (item[1], item[0]))
            rng.shuffle(found)
            by_base.append((base, found))
        count = 0
        while count < each and any(found for _, found in by_base):
            for base, found in by_base:
                if not found or count >= each:
                    continue
                text, (line, old, new) = found.pop()
                count += 1
                yield {"id": f"{operator.__name__}_{count:04d}", "operator": operator.__name__,
                       "base": base.name, "base_file": base.file, "kernel": base.kernel, "corpus": base.corpus,
                       "line": line, "change": f"{old} -> {new}"[:200], "header": base.header,
                       "text": text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("seed")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--each", type=int, default=260)
    parser.add_argument("--bases", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    for folder in ("mutants", "bases"):
        (options.out / folder).mkdir(parents=True)
    # Where the corpus lies, as the judge's machine finds it: beside the mutants, or from the
    # project's root.
    corpora = {folder.as_posix(): folder for folder in options.bases or ()}
    if not corpora:
        corpora["tests/gates"] = HERE
        for kind in ("fp16", "bf16"):
            variants.write_type(kind, options.out / kind)
            corpora[kind] = options.out / kind
    bases = [base for corpus, folder in corpora.items() for base in bases_of(folder, corpus)]
    for base in bases:
        (options.out / base.file).write_text(
            f"# Kernel: {base.kernel}\n# Expect: ok\n{base.header}\n{base.text}")
    counts: dict[str, int] = {}
    with open(options.out / "mutants.jsonl", "w") as index_file:
        for mutant in mutants(bases, options.seed, options.each):
            text, header = mutant.pop("text"), mutant.pop("header")
            mutant["file"] = f"mutants/{mutant['id']}.py"
            (options.out / mutant["file"]).write_text(
                f"# Kernel: {mutant['kernel']}\n# Expect: wrong_value\n"
                f"# Why: {mutant['operator']} in line {mutant['line']} of {mutant['base']}\n"
                f"{header}\n{text}")
            index_file.write(json.dumps(mutant) + "\n")
            counts[mutant["operator"]] = counts.get(mutant["operator"], 0) + 1
    print(f"{len(bases)} bases, {sum(counts.values())} mutants: "
          + ", ".join(f"{name} {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
