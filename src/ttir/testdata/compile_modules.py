"""Compiles the kernels of generated modules to TTIR and PTX, without a GPU:

    python compile_modules.py MODULES_DIR OUT_DIR [EVERY] [wide]

MODULES_DIR has modules of Inductor (any file names). Every EVERYth kernel is
compiled in one configuration, or in another one with `wide`; OUT_DIR gets
NUMBER.ttir, NUMBER.ptx and NUMBER.src. For developers:

    KERNELOPT_TTIR_DIR=OUT_DIR ttir_test
    KERNELOPT_TTIR_DIR=OUT_DIR KERNELOPT_TTIR_DIR2=OUT_DIR_WIDE triton_test
"""

import ast
import glob
import importlib.util
import os
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

NARROW = {"XBLOCK": 16, "YBLOCK": 16, "ZBLOCK": 4, "R0_BLOCK": 64, "R1_BLOCK": 16}
WIDE = {"XBLOCK": 32, "YBLOCK": 8, "ZBLOCK": 2, "R0_BLOCK": 512, "R1_BLOCK": 8}


def sources(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        with open(path) as module:
            tree = ast.parse(module.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "triton":
                if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                    yield node.args[0].value, node.args[1].value


def compile_kernel(name, source, path, blocks, options):
    tree = ast.parse(source)
    entry = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    heuristics = next(d for d in entry.decorator_list if isinstance(d, ast.Call))
    keywords = {k.arg: ast.Expression(k.value) for k in heuristics.keywords}
    meta = eval(  # the compiler's own text
        compile(keywords["triton_meta"], path, "eval"), {"DeviceProperties": lambda **k: k}
    )
    entry.decorator_list.remove(heuristics)
    tree.body = [n for n in tree.body if "set_driver" not in ast.unparse(n)]
    with open(path + ".py", "w") as text:
        text.write(ast.unparse(tree))
    spec = importlib.util.spec_from_file_location("kernel", path + ".py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = [a.arg for a in entry.args.args]
    constants = {
        (names.index(n),): meta["constants"].get(n, blocks.get(n))
        for n in names
        if meta["signature"].get(n) == "constexpr"
    }
    return triton.compile(
        ASTSource(getattr(module, name), meta["signature"], constants, meta["configs"][0]),
        target=GPUTarget("cuda", 90, 32),
        options=options,
    )


def main():
    folder, out = sys.argv[1:3]
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 13
    wide = "wide" in sys.argv
    os.makedirs(out, exist_ok=True)
    done = failed = 0
    for number, (name, source) in enumerate(sources(folder)):
        if number % every:
            continue
        path = os.path.join(os.path.abspath(out), f"{number:05d}")
        options = {"num_warps": 8, "num_stages": 3} if wide else {"num_warps": 4, "num_stages": 1}
        try:
            kernel = compile_kernel(name, source, path, WIDE if wide else NARROW, options)
        except Exception as error:  # one kernel's fault is no reason to stop
            print(number, name, repr(error)[:200])
            failed += 1
            continue
        for kind in ("ttir", "ptx"):
            with open(f"{path}.{kind}", "w") as text:
                text.write(kernel.asm[kind])
        with open(path + ".src", "w") as text:
            text.write(source)
        done += 1
    print(f"{done} kernels compiled, {failed} failed")


if __name__ == "__main__":
    main()
