"""What the loader does with a pack in a fresh process, as one line of JSON.

    python tests/gpu/swap_check.py MODEL.py [--pack P] [--mode M] [--train] [--cache DIR]

Prints {"swapped": n, "misses": {reason: n}, "change": largest |output - eager|
over the largest |eager|, "kopt": launches of NAME__kopt by the profiler}.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--pack", default="")
    parser.add_argument("--mode", default="default")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--cache", default="")
    args = parser.parse_args()
    if args.cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = args.cache
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                    "python"))
    import torch
    from torch.profiler import ProfilerActivity, profile

    import kernelopt
    from kernelopt.model import ModelSource, Variant, compile_model, prepare_gradients, run

    if args.pack:
        kernelopt.load(args.pack, allow_preview=True)
    variant = Variant(args.mode, args.train, 0)
    source = ModelSource(args.model)
    built = source.build()
    state = {k: v.clone() for k, v in built.module.state_dict().items()}

    def results(fn: object) -> list[torch.Tensor]:
        built.module.load_state_dict(state)
        prepare_gradients(built, variant)
        torch.manual_seed(0)
        out = run(source, fn, built, variant)
        found = [t.detach().clone() for t in (out if isinstance(out, (tuple, list)) else [out])
                 if isinstance(t, torch.Tensor)]
        if args.train:
            found += [p.grad.clone() for p in built.module.parameters() if p.grad is not None]
        return found

    eager = results(built.module)
    compiled = compile_model(built.module, variant)
    for _ in range(4):
        ours = results(compiled)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        results(compiled)
        torch.cuda.synchronize()
    kopt = sum(1 for e in profiler.events()
               if e.device_type == torch.autograd.DeviceType.CUDA and e.name.endswith("__kopt"))
    change = max(float((a.double() - b.double()).abs().max()
                       / b.double().abs().max().clamp(min=1e-30))
                 for a, b in zip(ours, eager, strict=True) if a.is_floating_point())
    stats = kernelopt.stats()
    print(json.dumps({
        "swapped": len(stats["swapped"]), "kopt": kopt, "change": change,
        "misses": collections.Counter(m["reason"] for m in stats["misses"])}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
