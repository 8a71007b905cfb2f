"""Runs a kernel's TTIR on the CPU, with numpy: what the float64 twins are checked with.

    module = evaluate.read(path)                      # by tests/ttir/ttir_tool
    evaluate.run(module, [Memory(1, "f32"), Memory(2, "f32"), 100], [(0, 0, 0), (1, 0, 0)])

runs the programs that are named. `wide=True` computes every float
in float64 whatever its type, which is what a twin has to do by its text. Only
what generated kernels are made of is known; the rest raises NotImplementedError.
bfloat16 values are float32 arrays, rounded where a type says so.
"""
from __future__ import annotations

import json
import math
import re
import subprocess

import numpy as np
import scipy.special as special

TYPES = {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}


def read(tool, path):
    answer = subprocess.run([tool, "json", str(path)], capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def split(kind):
    """(shape, element) of a type's text."""
    found = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", kind)
    if not found:
        return (), kind
    return tuple(int(n) for n in found.group(1).split("x")[:-1]), found.group(2)


def to_bf16(x):
    """Round to nearest even, in float32's clothes."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32))


class Memory:
    """An endless array: what was not stored is a number made from its place. It
    keeps what is stored as the type says, and runs kernels of any size."""

    def __init__(self, seed, element, low=-1.0, high=2.0):
        self.seed, self.element, self.low, self.high = seed, element, low, high
        self.stored = {}
        self.touched = set()  # offsets of all accesses

    def wide(self):
        """A float64 copy with the same contents."""
        copy = Memory(self.seed, self.element, self.low, self.high)
        copy.keep = lambda x: np.asarray(x, np.float64)
        return copy

    def keep(self, x):
        return to_bf16(x) if self.element == "bf16" else np.asarray(x).astype(TYPES[self.element])

    def __getitem__(self, at):
        # splitmix64
        with np.errstate(over="ignore"):
            x = at.astype(np.uint64) + np.uint64(self.seed) * np.uint64(0x9E3779B97F4A7C15)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
            x = x ^ (x >> np.uint64(31))
        unit = (x >> np.uint64(11)).astype(np.float64) / 2.0**53
        if self.element[0] == "i":
            made = (unit * (2 if self.element in ("i1", "i8") else 7)).astype(np.int64)
            made = made.astype(np.int8 if self.element == "i1" else TYPES[self.element])
        else:
            made = self.low + unit * (self.high - self.low)
            made = to_bf16(made) if self.element == "bf16" else made.astype(TYPES[self.element])
        made = self.keep(made) if self.element[0] != "i" else made
        if self.stored:
            made = np.array([self.stored.get(int(i), v)
                             for i, v in zip(at.ravel(), made.ravel())]).reshape(at.shape)
        return made

    def __setitem__(self, at, values):
        values = self.keep(values) if self.element[0] != "i" else values
        self.stored.update(zip((int(i) for i in at), values))


class Pointers:
    """Offsets in elements into one array."""

    def __init__(self, array, offsets, element):
        self.array, self.offsets, self.element = array, offsets, element

    def shaped(self, change):
        return Pointers(self.array, change(self.offsets), self.element)


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "tanh": np.tanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": special.erf,
    "erfc": special.erfc, "pow": np.power, "fabs": np.abs, "abs": np.abs, "floor": np.floor,
    "ceil": np.ceil, "nearbyint": np.rint, "rint": np.rint, "trunc": np.trunc,
    "atan": np.arctan, "atan2": np.arctan2, "asin": np.arcsin, "acos": np.arccos,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "fmod": np.fmod, "hypot": np.hypot, "lgamma": special.gammaln,
    "isnan": np.isnan, "isinf": np.isinf, "llrint": np.rint, "copysign": np.copysign,
    "fma": lambda a, b, c: a * b + c, "absf": np.abs,
}
BINARY = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide,
    "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin,
    "remf": np.fmod, "addi": np.add, "subi": np.subtract, "muli": np.multiply,
    "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
    "divsi": lambda a, b: np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1)),
    "remsi": np.fmod, "maxsi": np.maximum, "minsi": np.minimum,
    "shli": np.left_shift,
}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
           "gt": np.greater, "ge": np.greater_equal}


TERMINATORS = {"scf.yield", "scf.condition", "cf.br", "cf.cond_br", "tt.return",
               "tt.reduce.return", "tt.scan.return"}
BIT_OPS = {"tt.bitcast", "arith.muli", "arith.addi", "tt.reduce", "tt.expand_dims",
           "tt.broadcast", "tt.reshape", "tt.splat"}


class Run:
    def __init__(self, module, arguments, wide):
        self.types, self.wide = module["types"], wide
        self.values, self.program, self.grid = {}, (0, 0, 0), (1, 1, 1)
        self.module, self.arguments = module, arguments

    # --- numbers

    def cast(self, value, element):
        """A value as the type says."""
        if element.startswith("!tt.ptr"):
            return value
        if self.wide and element in ("f16", "bf16", "f32"):
            return np.asarray(value, np.float64)
        if element == "bf16":
            return to_bf16(np.asarray(value, np.float32))
        return np.asarray(value).astype(TYPES[element])

    def literal(self, text, element):
        text = text.strip()
        if text in ("true", "false"):
            return text == "true"
        if not text.lower().startswith("0x"):
            value = float(text) if element in ("f16", "bf16", "f32", "f64") else int(text)
        else:
            bits = int(text, 16)
            value = {"f64": lambda: np.uint64(bits).view(np.float64),
                     "f32": lambda: np.uint32(bits).view(np.float32),
                     "bf16": lambda: np.uint32(bits << 16).view(np.float32),
                     "f16": lambda: np.uint16(bits).view(np.float16)}[element]()
        if element == "bf16":
            return to_bf16(np.float32(value))
        return TYPES[element](value)  # the type's own number, also where all is wide

    # --- control

    def launch(self, programs):
        self.grid = tuple(max(p[i] for p in programs) + 1 for i in range(3))
        for self.program in programs:
            self.values = {}
            for value, argument in zip(self.module["parameters"], self.arguments):
                element = split(self.types[value])[1]
                if element.startswith("!tt.ptr"):
                    argument = Pointers(argument, np.asarray(0, np.int64), element[8:-1])
                else:
                    argument = self.cast(TYPES[element](argument), element)
                self.values[value] = argument
            self.blocks(self.module["body"])

    def blocks(self, blocks, arguments=()):
        """What the region's last operation hands out."""
        block = blocks[0]
        while True:
            self.values.update(zip(block["arguments"], arguments))
            # A region that hands nothing out may have no last operation of that kind.
            ends = bool(block["ops"]) and block["ops"][-1]["name"] in TERMINATORS
            for op in block["ops"][:-1] if ends else block["ops"]:
                self.op(op)
            if not ends:
                return []
            last = block["ops"][-1]
            given = [self.values[i] for i in last["operands"]]
            if last["name"] in ("cf.br", "cf.cond_br"):
                taken = last["successors"][0]
                if last["name"] == "cf.cond_br" and not given[0]:
                    taken = last["successors"][1]
                arguments = [self.values[i] for i in taken["arguments"]]
                block = next(b for b in blocks if b["label"] == taken["label"])
                continue
            return given

    def define(self, op, results):
        for value, result in zip(op["results"], results):
            shape, element = split(self.types[value])
            if isinstance(result, Pointers):
                assert result.offsets.shape == shape, (op["name"], op["line"])
            else:
                # Bits of a wide float that are passed on as an integer.
                bits = (self.wide and getattr(result, "dtype", None) == np.int64
                        and op["name"] in BIT_OPS)
                result = self.cast(result, "i64" if bits else element)
                assert result.shape == shape, (op["name"], op["line"], result.shape, shape)
            self.values[value] = result

    def op(self, op):
        name, given = op["name"], [self.values[i] for i in op["operands"]]
        regions = op.get("regions", [])
        if name == "scf.for":
            carried = [self.values[i] for i in op["initial"]]
            for i in range(int(given[0]), int(given[1]), int(given[2])):
                element = split(self.types[regions[0][0]["arguments"][0]])[1]
                carried = self.blocks(regions[0], [self.cast(i, element), *carried])
            return self.define(op, carried)
        if name == "scf.while":
            carried = [self.values[i] for i in op["initial"]]
            while True:
                condition, *handed = self.blocks(regions[0], carried)
                if not condition:
                    return self.define(op, handed)
                carried = self.blocks(regions[1], handed)
        if name == "scf.if":
            if given[0]:
                return self.define(op, self.blocks(regions[0]))
            return self.define(op, self.blocks(regions[1]) if len(regions) > 1 else [])
        if name in ("tt.reduce", "tt.scan"):
            return self.define(op, self.reduce(op, given, regions[0], name == "tt.scan"))
        if name == "tt.store":
            return self.store(*given)
        if name in ("tt.assert", "ttg.barrier", "gpu.barrier"):
            return None
        with np.errstate(all="ignore"):
            return self.define(op, [self.value(op, name, given)])

    def reduce(self, op, given, region, scan):
        axis = int(re.search(r"axis = (\d+)", op["attributes"]).group(1))
        moved = [np.moveaxis(x, axis, 0) for x in given]
        count, shape = len(moved[0]), moved[0].shape[1:]
        order = range(count)
        if "reverse = true" in op["attributes"]:
            order = reversed(order)
        results, state = [np.empty_like(x) for x in moved], None
        for i in order:
            if state is None:
                state = [x[i] for x in moved]
            else:  # the region is about one element; numpy takes a whole slice
                state = self.elementwise(region, [*state, *(x[i] for x in moved)], shape)
            for result, value in zip(results, state):
                result[i] = value
        return [np.moveaxis(x, 0, axis) for x in results] if scan else state

    def elementwise(self, region, arguments, shape):
        block, types = region[0], dict(enumerate(self.types))
        prefix = "tensor<" + "".join(f"{n}x" for n in shape)
        touched = [*block["arguments"], *(r for o in block["ops"] for r in o["results"])]
        saved = {value: self.types[value] for value in touched}
        for value in touched:  # the same operations, a slice wide
            if shape:
                self.types[value] = prefix + types[value] + ">"
        self.values.update({v: a for v, a in self.values.items()})
        out = [np.broadcast_to(x, shape) for x in self.blocks(region, arguments)]
        for value, kind in saved.items():
            self.types[value] = kind
        return out

    # --- memory

    def store(self, pointers, value, mask=True):
        shape = pointers.offsets.shape
        mask = np.broadcast_to(mask, shape)
        pointers.array.touched.update(pointers.offsets[mask].ravel().tolist())
        pointers.array[pointers.offsets[mask]] = np.broadcast_to(value, shape)[mask]

    def load(self, pointers, mask=True, other=77):
        """Where nothing is given for what is masked out, 77 stands for anything."""
        mask = np.broadcast_to(mask, pointers.offsets.shape)
        pointers.array.touched.update(pointers.offsets[mask].ravel().tolist())
        return np.where(mask, pointers.array[np.where(mask, pointers.offsets, 0)], other)

    # --- operations with one result

    def value(self, op, name, given):
        kind = self.types[op["results"][0]]
        shape, element = split(kind)
        text = op["attributes"]
        short = name.split(".", 1)[1]
        if name == "arith.constant":
            inner = re.fullmatch(r"dense<(.*)>", text)
            return np.full(shape, self.literal(inner.group(1) if inner else text, element))
        if short in BINARY and name.startswith("arith."):
            return BINARY[short](*given)
        if name in ("arith.divui", "arith.remui", "arith.shrui", "arith.shrsi"):
            a, b = given
            if short == "shrsi":
                return np.right_shift(a, b)
            unsigned = np.dtype(f"u{a.dtype}")
            a, b = a.view(unsigned), b.view(unsigned)
            return {"divui": np.floor_divide, "remui": np.mod,
                    "shrui": np.right_shift}[short](a, b).view(given[0].dtype)
        if name in ("arith.cmpf", "arith.cmpi"):
            word, (a, b) = text.split(",")[0], given
            if name == "arith.cmpi":
                if word.startswith("u"):
                    a, b = a.view(f"u{a.dtype}"), b.view(f"u{b.dtype}")
                return COMPARE[word if word in ("eq", "ne") else word[1:]](a, b)
            nan = np.isnan(a) | np.isnan(b)
            if word in ("ord", "uno"):
                return ~nan if word == "ord" else nan
            plain = COMPARE[word[1:]](a, b)
            return plain | nan if word.startswith("u") else plain & ~nan
        if name == "arith.select":
            chosen, a, b = given
            if isinstance(a, Pointers):
                return a if chosen else b
            return np.where(chosen, a, b)
        if name == "arith.negf":
            return -given[0]
        if name in ("arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.trunci"):
            return given[0]
        if name == "arith.extsi":
            return -given[0].astype(np.int64) if given[0].dtype == np.bool_ else given[0]
        if name == "arith.sitofp":
            return self.from_integer(-given[0].astype(np.int64) if given[0].dtype == np.bool_
                                     else given[0], element)
        if name in ("arith.extui", "arith.uitofp"):
            value = given[0]
            if value.dtype != np.bool_:
                value = value.view(f"u{value.dtype}")
            return value if short == "extui" else self.from_integer(value, element)
        if name in ("arith.fptosi", "arith.fptoui"):
            return np.trunc(given[0])
        if name == "tt.get_program_id":
            return self.program["xyz".index(text.strip()[0])]
        if name == "tt.get_num_programs":
            return self.grid["xyz".index(text.strip()[0])]
        if name == "tt.make_range":
            return np.arange(int(re.search(r"start = (\d+)", text).group(1)),
                             int(re.search(r"end = (\d+)", text).group(1)))
        if name in ("tt.splat", "tt.broadcast"):
            return self.reshaped(given[0], lambda x: np.broadcast_to(x, shape).copy())
        if name == "tt.expand_dims":
            axis = int(re.search(r"axis = (\d+)", text).group(1))
            return self.reshaped(given[0], lambda x: np.expand_dims(x, axis))
        if name in ("tt.reshape", "tt.unsplat"):
            return self.reshaped(given[0], lambda x: x.reshape(shape))
        if name == "tt.trans":
            order = [int(n) for n in re.search(r"order = array<i32: ([\d, ]+)>", text)
                     .group(1).split(",")]
            return self.reshaped(given[0], lambda x: x.transpose(order))
        if name == "tt.addptr":
            return Pointers(given[0].array, given[0].offsets + given[1].astype(np.int64),
                            given[0].element)
        if name == "tt.load":
            return self.load(*given)
        if name == "tt.bitcast":
            if isinstance(given[0], Pointers):  # bools are stored as bytes
                return Pointers(given[0].array, given[0].offsets, "i8")
            target = TYPES[element]
            if given[0].dtype == np.float64:
                target = np.int64
            elif given[0].dtype == np.int64:
                target = np.float64
            return given[0].view(target)
        if name == "tt.mulhiui":
            a, b = (x.view(np.uint32).astype(np.uint64) for x in given)
            return (a * b >> np.uint64(32)).astype(np.uint32).view(np.int32)
        if name == "tt.precise_sqrt":
            return np.sqrt(given[0])
        if name == "tt.precise_divf":
            return given[0] / given[1]
        if name == "tt.clampf":
            return np.clip(*given)
        if name == "tt.extern_elementwise":
            symbol = re.search(r'symbol = "__nv_(\w+)"', text).group(1)
            short = re.sub(r"^is(nan|inf)[df]$", r"is\1", symbol)
            if short not in FUNCTIONS and short.endswith("f"):
                short = short[:-1]
        if (name.startswith("math.") or name == "tt.extern_elementwise") and short in FUNCTIONS:
            return FUNCTIONS[short](*given)
        raise NotImplementedError(f"{name} in line {op['line']}")

    def from_integer(self, value, element):
        """In the type that the text names, also where all is wide."""
        narrow = np.asarray(value).astype(TYPES[element])
        return to_bf16(narrow) if element == "bf16" else narrow

    @staticmethod
    def reshaped(value, change):
        return value.shaped(change) if isinstance(value, Pointers) else change(value)


def run(module, arguments, programs, wide=False):
    assert len(arguments) == len(module["parameters"])
    Run(module, arguments, wide).launch(programs)


def compare_twin(tool, path, folder, programs=((0, 0, 0), (1, 0, 0)), scalar=50):
    """Runs a kernel as it is, the same with every float in float64, and its twin.

    Returns (stored elements, those in which the twin is not bit for bit the second,
    largest difference between twin and kernel in units of the largest value).
    """
    twin_path = f"{folder}/twin.ttir"
    widened = subprocess.run([tool, "promote", str(path), twin_path], capture_output=True,
                             text=True, check=True).stdout.strip()
    kernel, twin = read(tool, path), read(tool, twin_path)
    plain, all_wide, twins = [], [], []
    for seed, value in enumerate(kernel["parameters"]):
        element = split(kernel["types"][value])[1]
        if not element.startswith("!tt.ptr"):
            number = 0.25 if element[0] in "fb" else scalar
            for arguments in (plain, all_wide, twins):
                arguments.append(number)
            continue
        memory = Memory(seed + 1, element[8:-1].split(",")[0])
        plain.append(memory)
        wide = widened[seed] == "1"
        assert split(twin["types"][twin["parameters"][seed]])[1] == (
            "!tt.ptr<f64>" if wide else element)
        for arguments in (all_wide, twins):
            copy = Memory(memory.seed, memory.element)
            arguments.append(memory.wide() if wide else copy)
    run(kernel, plain, programs)
    run(kernel, all_wide, programs, wide=True)
    run(twin, twins, programs)
    stored = differing = 0
    worst = 0.0
    for narrow, wide, made in zip(plain, all_wide, twins):
        if not isinstance(narrow, Memory) or not narrow.stored:
            continue
        assert narrow.stored.keys() == made.stored.keys() == wide.stored.keys()
        a, b, c = (np.array(list(m.stored.values()), np.float64) for m in (narrow, wide, made))
        stored += len(a)
        differing += int((~((b == c) | (np.isnan(b) & np.isnan(c)))).sum())
        worst = max(worst, largest_difference(a, c))
    return stored, differing, worst


def largest_difference(a, b):
    """Of two arrays, relative to the largest finite magnitude."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    scale = max(np.abs(np.where(np.isfinite(a), a, 0)).max(initial=0), 1e-300)
    with np.errstate(invalid="ignore"):  # infinities
        difference = np.abs(a - b)[~same]
    return math.inf if not np.isfinite(difference).all() else float(difference.max() / scale)
