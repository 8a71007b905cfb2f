"""Writes names.inc: the names that a kernel's text may use, per triton version.

    python make_names.py 3.5=TRITON,TORCH 3.6=TRITON,TORCH ... > names.inc

TRITON and TORCH are package folders of a pair that fits; their sources are parsed, never
imported. (A helper that the user's torch lacks after all is an error of the compilation:
the list says what may be executed, not what works.) WANTED is the choice: what generated kernels use and
what is needed to rewrite them. A name is written for each version that has it.
Left out on purpose: assembly, atomics, descriptors and block pointers,
printing, alignment claims (multiple_of, assume), `extra`, scratch and barrier
helpers, the fast_* forms of libdevice.
"""

import ast
import os
import sys

TL = """
abs arange argmax argmin associative_scan bfloat16 broadcast broadcast_to cast cat cdiv ceil clamp
constexpr cos cumprod cumsum debug_barrier device_assert div_rn dot erf exp exp2 expand_dims fdiv
flip float16 float32 float64 floor fma full gather int1 int16 int32 int64 int8 interleave join load
log log2 max maximum min minimum num_programs permute program_id rand rand4x randint randint4x randn
randn4x range ravel reduce reshape rsqrt sigmoid sin softmax sort split sqrt sqrt_rn squeeze
static_assert static_range store sum swizzle2d trans uint16 uint32 uint64 uint8 umulhi unsqueeze
view where xor_sum zeros zeros_like
""".split()

HELPERS = """
any bucketize_binary_search constexpr_next_power_of_2 device_assert_then div_floor_integer exp frexp
if_mask is_floating max2 max_with_index maximum maximum_with_index min2 min_with_index minimum
minimum_with_index online_softmax_combine online_softmax_reduce prod promote_to_tensor
remainder_integer select_one sort_with_index welford welford_combine welford_reduce
""".split()


def functions(path):
    with open(path) as source:
        tree = ast.parse(source.read())
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"}


def exported(path):
    with open(path) as source:
        tree = ast.parse(source.read())
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return {element.value for element in node.value.elts}
    raise SystemExit(f"{path} has no __all__")


def names(triton, torch):
    language = os.path.join(triton, "language")
    found = {f"tl.{n}" for n in exported(os.path.join(language, "__init__.py")) & set(TL)}
    if "PropagateNan" in exported(os.path.join(language, "__init__.py")):
        found.add("tl.PropagateNan.ALL")
    found |= {f"tl_math.{n}" for n in functions(os.path.join(language, "math.py"))}
    libdevice = functions(os.path.join(language, "extra", "cuda", "libdevice.py"))
    found |= {f"libdevice.{n}" for n in libdevice if not n.startswith("fast_")}
    helpers = functions(os.path.join(torch, "_inductor", "runtime", "triton_helpers.py"))
    found |= {f"triton_helpers.{n}" for n in helpers & set(HELPERS)}
    return found


def main():
    versions = {}
    for argument in sys.argv[1:]:
        version, folders = argument.split("=", 1)
        versions[version] = names(*folders.split(",", 1))
    print("// Made by make_names.py; one entry a name, with the triton versions that have it.")
    for name in sorted(set().union(*versions.values())):
        mask = " | ".join(
            "kTriton" + version.replace(".", "") for version in versions if name in versions[version]
        )
        print(f'{{"{name}", {mask}}},')


if __name__ == "__main__":
    main()
