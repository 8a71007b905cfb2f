"""Compare the reader of generated modules with an independent reading by Python's `ast`.

Usage: check_corpus.py INSPECT_CORPUS FOLDER

INSPECT_CORPUS is the built program (tests/corpus/inspect_main.cc), FOLDER holds
generated modules (*.py, *.py.txt). Prints one line a difference, then the counts;
exit code 1 if anything differs. The reading here shares no code with the product
and follows Python's own grammar.
"""
import ast
import json
import pathlib
import re
import subprocess
import sys
import warnings
from typing import Any

NOT_CALLED = ("get_args", "benchmark_compiled_module")


class Text:
    """A source with spans as byte offsets, which is what `inspect` counts in."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.bytes = source.encode()
        self.lines = [0]
        for line in self.bytes.split(b"\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)

    def offset(self, line: int, column: int) -> int:
        return self.lines[line - 1] + column

    def span(self, node: ast.AST) -> list[int]:
        return [self.offset(node.lineno, node.col_offset),
                self.offset(node.end_lineno, node.end_col_offset)]

    def of(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.bytes[begin:end].decode()


def literal(text: Text, node: ast.AST) -> Any:
    """A literal as JSON, by the rules of src/inductor/literal.h."""
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, (bool, str, float)):
            return value
        case ast.Constant(value=int(value)) if abs(value) < 2**63:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [literal(text, item) for item in items]
        case ast.Call(func=ast.Name(id="set"), args=[], keywords=[]):
            return []
        case ast.Dict(keys=keys, values=values):
            return {key.value if isinstance(key, ast.Constant) and isinstance(key.value, str)
                    else text.of(key): literal(text, value)
                    for key, value in zip(keys, values)}
        case _:
            return text.of(node)


def is_heuristics(node: ast.AST) -> bool:
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name) and node.func.value.id == "triton_heuristics")


def annotation(text: Text, node: ast.arg) -> str:
    return "" if node.annotation is None else "".join(text.of(node.annotation).split())


def kernel_fields(source: str, entry: str) -> dict[str, Any] | None:
    """What `inspect` says of one kernel's source; None for what isn't Python."""
    text = Text(source)
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    (function,) = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == entry
                   and any(map(is_heuristics, f.decorator_list))]
    (call,) = filter(is_heuristics, function.decorator_list)
    given = {k.arg: k.value for k in call.keywords}

    def last(name: str) -> str:
        return ast.unparse(given[name]).split(".")[-1] if name in given else ""

    triton_meta = literal(text, given["triton_meta"])
    inductor_meta = literal(text, given["inductor_meta"])
    first = function.decorator_list[0]
    return {
        "entry": entry,
        "decorator": call.func.attr,
        "size_hints": literal(text, given["size_hints"]) if "size_hints" in given else {},
        "reduction_hint": last("reduction_hint"),
        "tile_hint": last("tile_hint"),
        "triton_meta": triton_meta,
        "inductor_meta": inductor_meta,
        "mutated": inductor_meta.get("mutated_arg_names", []),
        "grid_type": inductor_meta.get("grid_type", ""),
        "arguments": [{"name": a.arg, "annotation": annotation(text, a),
                       "type": triton_meta["signature"].get(a.arg, "")}
                      for a in function.args.args],
        # The "@" of the first decorator to the end of the function.
        "function": [text.offset(first.lineno, first.col_offset) - 1, text.span(function)[1]],
        "problem": "",
    }


def comments_above(text: Text, node: ast.AST) -> list[str]:
    lines = text.source.split("\n")
    above = []
    for line in reversed(lines[:node.lineno - 1]):
        if not line.startswith("#"):
            break
        above.append(line)
    return above


def user_path(text: Text, node: ast.AST) -> str:
    mark = "# Original path: "
    found = [line[len(mark):] for line in comments_above(text, node) if line.startswith(mark)]
    return found[0] if found else ""


class Calls(ast.NodeVisitor):
    """Launches and library calls with the function that holds them."""

    def __init__(self, text: Text, kernels: set[str], objects: set[str], aliases: set[str]) -> None:
        self.text, self.kernels, self.objects, self.aliases = text, kernels, objects, aliases
        self.function = ""
        self.launches: list[dict[str, Any]] = []
        self.externs: list[dict[str, Any]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in NOT_CALLED:
            return
        outer, self.function = self.function, node.name
        self.generic_visit(node)
        self.function = outer

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        first, _, rest = name.partition(".")
        place = {"function": self.function, "span": self.text.span(node)}
        if rest == "run" and first in self.kernels | self.objects:
            streams = [self.text.of(k.value) for k in node.keywords if k.arg == "stream"]
            self.launches.append({"kernel": first, "stream": "".join(streams), **place,
                                  "arguments": [self.text.of(a) for a in node.args]})
        elif self.function and (name.startswith(("extern_kernels.", "torch.ops."))
                                or (rest and first in self.aliases) or name in self.objects):
            self.externs.append({"target": name, **place, "arguments": [
                self.text.of(a) for a in sorted([*node.args, *node.keywords],
                                                key=lambda a: (a.lineno, a.col_offset))]})
        self.generic_visit(node)


def assigned_call(statement: ast.stmt) -> tuple[str, ast.Call, str] | None:
    """(NAME, call, METHOD) of `NAME = async_compile.METHOD(...)`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(
                func=ast.Attribute(value=ast.Name(id="async_compile"), attr=method)) as call):
            return name, call, method
    return None


def module_fields(source: str) -> dict[str, Any]:
    """The fields of `inspect --json`, without keys."""
    text = Text(source)
    tree = ast.parse(source)
    kernels, objects, aliases = [], set(), set()
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() as value):
                if ast.unparse(value).startswith("torch.ops."):
                    aliases.add(name)
        found = assigned_call(statement)
        if found is None:
            continue
        name, call, method = found
        if method != "triton":
            objects.add(name)
            continue
        entry, string = call.args[0].value, call.args[1]
        begin, end = text.span(string)
        assert text.bytes[begin:begin + 3] == text.bytes[end - 3:end] == b"'''"
        fields = kernel_fields(string.value, entry)
        device = {k.arg: k.value.value for k in call.keywords}.get("device_str", "")
        kernels.append({"name": name, "device": device, "user_path": user_path(text, statement),
                        "assignment": text.span(statement), "source": [begin + 3, end - 3],
                        "text": string.value, **(fields or {"unreadable": True})})
    names = {kernel["name"] for kernel in kernels}
    calls = Calls(text, names, objects, aliases)
    calls.visit(tree)
    named = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names]
    run = [launch["kernel"] for launch in calls.launches]
    phase = re.search(r"^# AOT ID: \['\d+_(inference|forward|backward)'\]$", source, re.MULTILINE)
    return {
        "phase": phase[1] if phase else "",
        "kernels": kernels,
        "launches": sorted(calls.launches, key=lambda c: c["span"]),
        "externs": sorted(calls.externs, key=lambda c: c["span"]),
        # Once in its definition, once a launch; anything more is another use.
        "used_elsewhere": sorted(n for n in names if named.count(n) > 1 + run.count(n)),
    }


def differences(wanted: Any, found: Any, path: str) -> list[str]:
    """One line for each field of `wanted` that `found` has otherwise."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [line for key in wanted
                for line in differences(wanted[key], found.get(key, "<absent>"), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [line for i, (a, b) in enumerate(zip(wanted, found))
                for line in differences(a, b, f"{path}[{i}]")]
    if type(wanted) is type(found) and wanted == found:
        return []
    return [f"{path}: wanted {wanted!r:.200}, found {found!r:.200}"]


def compare_module(report: dict[str, Any]) -> list[str]:
    """What is wrong with one line of inspect_corpus."""
    name = report["file"]
    if "error" in report:
        return [f"{name}: {report['error']}"]
    source = pathlib.Path(name).read_text()
    wanted, found = module_fields(source), report["module"]
    wrong = [f"{name}: {failure}" for failure in report["failures"]]
    for kernel in wanted["kernels"]:
        text = kernel.pop("text")
        if kernel.pop("unreadable", False):
            problem = next(k for k in found["kernels"] if k["name"] == kernel["name"])["problem"]
            wrong += [] if problem else [f"{name}: {kernel['name']} has no problem"]
        elif kernel["name"] in report["sources"]:
            wrong += built_source(kernel["name"], text, report["sources"][kernel["name"]])
    # Written twice as far as types go: 1 and 1.0 are equal for ==.
    for key in ("launches", "externs"):
        found[key] = sorted(found[key], key=lambda c: c["span"])
    return wrong + differences(wanted, found, name)


def built_source(name: str, live: str, built: str) -> list[str]:
    """The source built from the compiler's own text differs only as it should."""
    def parts(source: str) -> tuple[list[str], list[str], list[str], dict[str, str]]:
        tree = ast.parse(source)
        functions = [f for f in tree.body if isinstance(f, ast.FunctionDef)]
        (call,) = [d for f in functions for d in f.decorator_list if is_heuristics(d)]
        names = [ast.unparse(s) for s in tree.body if isinstance(s, ast.Assign)]
        frame = [ast.unparse(s) for s in tree.body
                 if not isinstance(s, (ast.FunctionDef, ast.Assign))]
        for function in functions:
            function.decorator_list = [d for d in function.decorator_list if not is_heuristics(d)]
        metas = {k.arg: ast.unparse(k.value) for k in call.keywords}
        return frame, [ast.unparse(f) for f in functions], names, {
            k: metas[k] for k in ("triton_meta", "inductor_meta", "filename")}

    frame, functions, _, metas = parts(live)
    built_frame, built_functions, alias, built_metas = parts(built)
    entry = re.search(r"def (\w+)\(", functions[-1])[1]
    renamed = [f.replace(f"def {entry}(", f"def {entry}__kopt(") for f in functions]
    ok = (frame == built_frame and metas == built_metas and renamed == built_functions
          and alias == [f"{entry} = {entry}__kopt"])
    return [] if ok else [f"{name}: the built source isn't the live one renamed"]


def check(program: str, folder: str) -> tuple[list[str], dict[str, int]]:
    """(differences, counts) of a folder of modules."""
    lines = subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout
    wrong: list[str] = []
    counts = {"modules": 0, "kernels": 0, "launches": 0, "externs": 0, "refused": 0}
    for line in lines.splitlines():
        report = json.loads(line)
        counts["modules"] += 1
        for key in ("kernels", "launches", "externs"):
            counts[key] += len(report.get("module", {}).get(key, []))
        counts["refused"] += len(report.get("refusals", []))
        wrong += compare_module(report)
    return wrong, counts


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    warnings.simplefilter("ignore", SyntaxWarning)  # the compiler's own odd escapes
    wrong, counts = check(*sys.argv[1:])
    print("\n".join(wrong[:50] + ([f"... {len(wrong)} in all"] if len(wrong) > 50 else [])))
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if wrong or not counts["modules"] else 0


if __name__ == "__main__":
    sys.exit(main())
