"""Plants faults in kernels, and asks the judge of the shadow device to find them:

    python tests/shadow/plant.py SEED COUNT [MODULES_DIR KERNELS]

Base kernels are the launches of examples/recordings and tests/gates/capture, and KERNELS
kernels of the generated modules in MODULES_DIR, drawn by SEED; in none of them may
anything be found. COUNT faults, of all kinds alike, are drawn by SEED and planted in
their TTIR, each certain to do something wrong: out of bounds, conflicts between and
inside of instances, reads of what was never written, elements left out, waiting without
end. Prints a table and what was not found; exit code 1 below 99 %, or where a base
kernel has a finding. Found means for the right reason and, but for elements left out,
at the planted line.
"""
from __future__ import annotations

import collections
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_jobs  # noqa: E402
from built import built  # noqa: E402

WORK = 1_000_000
SHARE = 0.99
ACCESS = re.compile(r"^ *(?:(?P<result>%\S+) = )?tt\.(?P<what>load|store) (?P<pointer>%[\w#]+)"
                    r"(?P<rest>(?:, %[\w#]+)*)[^:]*: (?P<type>tensor<(?P<shape>(?:\d+x)+)"
                    r"!tt\.ptr<(?P<element>\w+)>>)")
REASONS = {"bounds": {"wrote_outside", "read_outside"},
           # Where all store the same value there, others are left out all the same.
           "between": {"race", "read_unwritten", "not_written"},
           "inside": {"race", "read_unwritten", "not_written"},
           "unwritten": {"read_unwritten", "read_outside", "race"},
           "left out": {"not_written"}, "waiting": {"endless"}}


class Access:
    """A load or store of a text, and what its address is made of."""

    def __init__(self, base, index, match):
        self.base, self.index, self.what = base, index, match["what"]
        self.pointer, self.shape, self.element = match["pointer"], match["shape"], match["element"]
        self.operands = match["rest"].split(", ")[1:]
        self.type = match["type"]
        self.lanes = math.prod(int(n) for n in self.shape.split("x")[:-1])
        self.numbers = f"tensor<{self.shape}i32>"
        self.top = base.lines[index].startswith("    ") and base.lines[index][4] != " "
        self.splat = self._splat()  # line of the splat of the parameter
        self.parameter = None
        if self.splat is not None:
            self.parameter = re.search(r"tt\.splat %(\w+)", base.lines[self.splat])[1]

    def _splat(self):
        name = self.pointer
        for _ in range(4):
            at = self.base.definition.get(name)
            line = self.base.lines[at] if at is not None else ""
            if found := re.match(r"^ *%\S+ = tt\.splat (%\w+) : !tt\.ptr", line):
                return at if found[1][1:] in self.base.parameters else None
            found = re.match(r"^ *%\S+ = tt\.(?:addptr|broadcast|expand_dims) (%[\w#]+)", line)
            if not found:
                return None
            name = found[1]
        return None

    @property
    def mask(self):
        at = 0 if self.what == "load" else 1
        return self.operands[at] if len(self.operands) > at else None

    @property
    def storage(self):
        return self.base.storage_of[self.parameter]

    def contiguous(self):
        """Whether lane i of program p is element p * lanes + i."""
        text = [self.base.lines[self.base.definition[self.pointer]]]
        found = re.search(r"addptr %\S+, (%\S+) :", text[0])
        index = found and self.base.lines[self.base.definition.get(found[1], 0)]
        sum_ = index and re.search(r"arith\.addi (%\S+), (%\S+) : tensor<\d+xi32>", index)
        if not sum_:
            return False
        start, lane = (self.base.lines[self.base.definition.get(name, 0)] for name in sum_.groups())
        splat = re.search(r"tt\.splat (%\S+) : i32", start)
        product = splat and self.base.lines[self.base.definition.get(splat[1], 0)]
        return bool("tt.make_range" in lane and product
                    and re.search(rf"arith\.muli %\S+, %c{self.lanes}_i32 : i32", product))


class Base:
    """A kernel that faults are planted in."""

    def __init__(self, number, job, text):
        self.number, self.job, self.lines = number, job, text.splitlines()
        self.parameters = re.findall(r"%(\w+): !?\w", self.lines[self._entry()])
        arguments = [p["argument"] for p in job["record"]["parameters"] if p["kind"] != "scratch"]
        self.storage_of = {name: job["arguments"][at].get("storage")
                           for name, at in zip(self.parameters, arguments)}
        self.definition = {}
        for index, line in enumerate(self.lines):
            if found := re.match(r"^ *(%[\w]+)(?::\d+)? = ", line):
                self.definition[found[1]] = index
        self.accesses = [Access(self, i, found) for i, line in enumerate(self.lines)
                         if (found := ACCESS.match(line))]
        self.loads = [a for a in self.accesses if a.what == "load" and a.parameter and a.top]
        self.stores = [a for a in self.accesses if a.what == "store" and a.parameter and a.top]
        self.programs = math.prod(job["grid"])
        loaded = {a.storage for a in self.accesses if a.what == "load" and a.parameter}
        followed = all(a.parameter for a in self.accesses) and \
            len(self.accesses) == text.count("tt.load") + text.count("tt.store")
        #: Storages that start as poison.
        self.poison = {a.storage for a in self.stores} - loaded if followed else set()

    def _entry(self):
        return next(i for i, line in enumerate(self.lines) if "tt.func public" in line)

    def elements(self, access):
        storage = self.job["storages"][access.storage]
        return storage["bytes"] // gpu_jobs.sweep.BYTES[storage["dtype"]]

    def with_lines(self, access, before=(), after=(), line=None):
        """The text with lines around an access and another one in its place; and the number
        of that line."""
        old = self.lines[access.index]
        place = re.search(r" loc\(.*", old)
        tail = place[0] if place else ""
        new = [f"    {text}{tail}" for text in before]
        at = len(new)
        new += [old if line is None else line]
        new += [f"    {text}{tail}" for text in after]
        lines = self.lines[:access.index] + new + self.lines[access.index + 1:]
        return "\n".join(lines) + "\n", access.index + 1 + at

    def retargeted(self, access, before, pointer):
        line = self.lines[access.index].replace(access.pointer, pointer, 1)
        return self.with_lines(access, before, line=line)


def place_of_lane(access):
    """Operations that give %kf_a, element i of the storage for lane i of every program."""
    plain = f"tensor<{access.lanes}xi32>"
    ops = [f"%kf_r = tt.make_range {{end = {access.lanes} : i32, start = 0 : i32}} : {plain}"]
    index = "%kf_r"
    shape = [int(n) for n in access.shape.split("x")[:-1]]
    if len(shape) > 1 and sum(n > 1 for n in shape) > 1:
        ops.append(f"%kf_i = tt.reshape %kf_r : {plain} -> {access.numbers}")
        index = "%kf_i"
    elif len(shape) > 1:
        type_, axes = plain, [i for i, n in enumerate(shape) if n == 1][:len(shape) - 1]
        for number, axis in enumerate(axes):
            kept = [n for i, n in enumerate(shape) if i not in axes[number + 1:]]
            wider = f"tensor<{''.join(f'{n}x' for n in kept)}i32>"
            ops.append(f"%kf_i{number} = tt.expand_dims {index} {{axis = {axis} : i32}} : {type_} "
                       f"-> {wider}")
            index, type_ = f"%kf_i{number}", wider
    return ops + [f"%kf_b = tt.splat %{access.parameter} : !tt.ptr<{access.element}> -> "
                  f"{access.type}",
                  f"%kf_a = tt.addptr %kf_b, {index} : {access.type}, {access.numbers}"]


def moved(access, by, name="%kf_a"):
    """Operations that give `name`, the access's addresses `by` elements on."""
    return [f"{name}k = arith.constant dense<{by}> : {access.numbers}",
            f"{name} = tt.addptr {access.pointer}, {name}k : {access.type}, {access.numbers}"]


def bounds(base, draw):
    for access in base.loads + base.stores:
        elements = base.elements(access)
        if 0 < elements < 1 << 31:
            by = draw.choice([elements, -elements])
            yield base.retargeted(access, moved(access, by), "%kf_a")
        mask = access.mask
        if mask and access.contiguous() and base.programs * access.lanes > elements:
            keep = access.operands[:0 if access.what == "load" else 1]
            line = base.lines[access.index]
            old = ", ".join([access.pointer, *access.operands])
            yield base.with_lines(access,
                                  line=line.replace(old, ", ".join([access.pointer, *keep]), 1))


def between(base, draw):
    """Instances meet in elements that are one's own elsewhere."""
    for access in base.stores:
        if base.programs > 1 and access.lanes >= 4 and base.elements(access) >= access.lanes \
                and access.element.startswith(("f", "bf")):
            yield base.retargeted(access, place_of_lane(access), "%kf_a")
            if access.contiguous():  # half of the next instance's
                half = moved(access, access.lanes // 2, "%kf_h")
                mask = f", {access.mask}" if access.mask else ""
                text, line = base.with_lines(
                    access, before=half[:1],
                    after=[half[1], f"%kf_v = tt.load %kf_h{mask} : {access.type}"])
                yield text, line + 2
    for access in base.loads:
        if access.storage in {s.storage for s in base.stores} and base.programs > 1 \
                and access.lanes >= 4 and base.elements(access) >= access.lanes:
            yield base.retargeted(access, place_of_lane(access), "%kf_a")


def inside(base, draw):
    """Lanes of one instance meet, with no barrier between."""
    for access in base.stores:
        if access.lanes < 2 or not access.element.startswith(("f", "bf")):
            continue
        yield base.retargeted(
            access, [f"%kf_a = tt.splat %{access.parameter} : !tt.ptr<{access.element}> -> "
                     f"{access.type}"], "%kf_a")
        if access.contiguous():  # each lane reads what the next one stored
            mask = f", {access.mask}" if access.mask else ""
            next_ = moved(access, 1)
            text, line = base.with_lines(
                access, before=next_[:1],
                after=[next_[1], f"%kf_v = tt.load %kf_a{mask} : {access.type}"])
            yield text, line + 2


def unwritten(base, draw):
    for access in base.stores:
        if access.storage in base.poison:
            mask = f", {access.mask}" if access.mask else ""
            text, line = base.with_lines(
                access, before=[f"%kf_v = tt.load {access.pointer}{mask} : {access.type}"])
            yield text, line - 1
    for access in base.loads:
        for store in base.stores:
            alone = sum(other.splat == access.splat for other in base.accesses) == 1
            if store.storage not in base.poison or store.element != access.element or not alone:
                continue
            lines = list(base.lines)
            lines[access.splat] = lines[access.splat].replace(f"%{access.parameter} ",
                                                              f"%{store.parameter} ", 1)
            yield "\n".join(lines) + "\n", access.index + 1
            break


def left_out(base, draw):
    for access in base.stores:
        if access.storage not in base.poison or access.element == "i1":
            continue
        yield base.with_lines(access, line="")
        bools = f"tensor<{access.shape}i1>"
        pid = ["%kf_p = tt.get_program_id x : i32",
               f"%kf_c = arith.constant {draw.choice([0, base.job['grid'][0] - 1])} : i32",
               "%kf_n = arith.cmpi ne, %kf_p, %kf_c : i32",
               f"%kf_s = tt.splat %kf_n : i1 -> {bools}"]
        line = base.lines[access.index]
        if access.mask:
            pid.append(f"%kf_m = arith.andi %kf_s, {access.mask} : {bools}")
            line = line.replace(f", {access.mask}", ", %kf_m", 1)
        else:
            value = access.operands[0]
            line = line.replace(f", {value}", f", {value}, %kf_s", 1)
        yield base.with_lines(access, pid, line=line)


def waiting(base, draw):
    """Programs wait for a change of an element that nobody changes."""
    for access in base.loads:
        kind = access.element
        if kind not in ("f32", "i32", "i64", "i8"):
            continue
        same = f"arith.cmpf oeq, %kf_v, %kf_v : {kind}" if kind == "f32" else \
            f"arith.cmpi eq, %kf_v, %kf_v : {kind}"
        loop = ["scf.while : () -> () {",
                f"  %kf_v = tt.load %{access.parameter} : !tt.ptr<{kind}>",
                f"  %kf_c = {same}", "  scf.condition(%kf_c)", "} do {", "  scf.yield", "}"]
        if draw.random() < 0.5:
            text, line = base.with_lines(access, before=loop)
            yield text, line - len(loop)
        else:  # the last one alone
            last = base.job["grid"][0] - 1
            only = ["%kf_p = tt.get_program_id x : i32", f"%kf_l = arith.constant {last} : i32",
                    "%kf_i = arith.cmpi eq, %kf_p, %kf_l : i32", "scf.if %kf_i {",
                    *("  " + text for text in loop), "}"]
            text, line = base.with_lines(access, before=only)
            yield text, line - len(loop) - 1


KINDS = {"bounds": bounds, "between": between, "inside": inside, "unwritten": unwritten,
         "left out": left_out, "waiting": waiting}


def judge(folder, faults):
    (folder / "faults.json").write_text(json.dumps(faults))
    done = subprocess.run([built("shadow/shadow_check"), folder, str(WORK)], capture_output=True,
                          text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def plant(bases, draw, count, folder):
    """`count` faults, of all kinds alike, as rows of faults.json."""
    possible = {}
    for kind, make in KINDS.items():
        found = [(base, i) for base in bases
                 for i, _ in enumerate(make(base, random.Random(0)))]
        draw.shuffle(found)
        possible[kind] = found
    faults = []
    while len(faults) < count and any(possible.values()):
        for kind, make in KINDS.items():
            if possible[kind] and len(faults) < count:
                base, i = possible[kind].pop()
                text, line = list(make(base, random.Random(draw.random())))[i]
                name = f"fault{len(faults):05d}.ttir"
                (folder / name).write_text(text)
                faults.append({"job": base.number, "ttir": name, "kind": kind, "line": line,
                               "kernel": base.job["name"]})
    return faults


def run(seed, count, modules, kernels, folder):
    """Prints the table; the share that was found, and base kernels with findings."""
    draw = random.Random(seed)
    recordings = [*sorted((gpu_jobs.ROOT / "examples/recordings").iterdir()),
                  gpu_jobs.ROOT / "tests/gates/capture"]
    asked = [launch for each in recordings for launch in gpu_jobs.recorded(each)]
    if modules:
        asked += gpu_jobs.drawn(modules, seed, kernels)
    jobs = gpu_jobs.write(asked, folder)
    clean = judge(folder, [{"job": i} for i in range(len(jobs))])
    dirty = [(job["name"], answer) for job, answer in zip(jobs, clean) if answer["reason"] != "ok"]
    for name, answer in dirty:
        print("base kernel", name, answer["reason"], answer["message"])
    bases = [Base(i, job, (folder / f"{job['files']}.ttir").read_text())
             for i, (job, answer) in enumerate(zip(jobs, clean)) if answer["reason"] == "ok"]
    faults = plant(bases, draw, count, folder)
    planted, found, sampled = (collections.Counter() for _ in range(3))
    for fault, answer in zip(faults, judge(folder, faults)):
        kind = fault["kind"]
        planted[kind] += 1
        sampled[kind] += answer["share"] < 1
        right = answer["reason"] == "not_written" or \
            fault["line"] in (answer.get("line"), answer.get("other_line"))
        if answer["reason"] in REASONS[kind] and right:
            found[kind] += 1
        else:
            print("not found:", kind, fault["ttir"], "line", fault["line"], fault["kernel"], answer)
    for kind in KINDS:
        print(f"{kind:<12} {found[kind]:>5} of {planted[kind]:>5} found, "
              f"{sampled[kind]:>5} sampled")
    print(f"{found.total()} of {planted.total()} faults in {len({f['job'] for f in faults})} "
          f"kernels found; {len(dirty)} of {len(jobs)} base kernels with a finding")
    return found.total() / max(planted.total(), 1), dirty


def main():
    modules, kernels = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else (None, 0)
    with tempfile.TemporaryDirectory() as folder:
        share, dirty = run(int(sys.argv[1]), int(sys.argv[2]), modules, kernels,
                           pathlib.Path(folder))
    sys.exit(0 if share >= SHARE and not dirty else 1)


if __name__ == "__main__":
    main()
