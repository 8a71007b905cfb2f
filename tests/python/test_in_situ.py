"""in_situ.py on CPU tensors: both kernels on the same storages, errors in scales."""
import pytest
import torch

from kernelopt import in_situ

ULP = 2.0 ** -23  # of values in [1, 2)


class Kernel:
    """Stands in for a CachingAutotuner: out = 1 + x / 2, one element off by `ulps`."""

    def __init__(self, ulps=0.0, integer=False, jump=0.0):
        self.ulps, self.integer, self.jump = ulps, integer, jump
        self.runs = 0

    def run(self, x, out, flags, n, stream):
        self.runs += 1
        out.copy_(1 + x / 2 + (x.view(torch.int32) % 64 == 1) * self.jump)
        out[77] += self.ulps * ULP
        flags.copy_((x > 0.5) ^ self.integer)


@pytest.fixture(autouse=True)
def no_capture(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)


def compare(original, replacement):
    torch.manual_seed(0)
    x, out = torch.rand(4096), torch.full((4096,), torch.nan)
    flags = torch.zeros(4096, dtype=torch.bool)
    verified = in_situ.VerifiedKernel("k", "key", original, replacement)
    verified.run(x, out, flags, 4096, stream=0)
    expected = torch.empty_like(out)
    replacement.run(x, expected, torch.empty_like(flags), 4096, stream=0)
    assert torch.equal(out, expected)  # the program goes on with ours
    return verified.comparison


def test_equal_kernels_are_bitwise_equal_after_one_run_each():
    original = Kernel()
    found = compare(original, Kernel())
    assert found.launches == 1 and found.bitwise_equal and original.runs == 1
    assert found.max_z == found.own_z == 0


@pytest.mark.parametrize("ulps, lowest, highest", [(2, 0.8, 2), (30, 12, 30)])
def test_an_error_is_told_in_scales(ulps, lowest, highest):
    found = compare(Kernel(), Kernel(ulps))
    assert not found.bitwise_equal
    assert lowest < found.max_z < highest
    assert (found.own_z > 0) == (found.max_z > 4)  # measured on a second look only


def test_a_kernel_that_jumps_shows_its_own_errors():
    found = compare(Kernel(jump=1.0), Kernel(30, jump=1.0))
    assert 4 < found.own_z < 5  # one of twenty runs: the root of 20, whatever the jump's height


def test_integers_are_counted():
    assert compare(Kernel(), Kernel(integer=True)).integer_mismatches == 4096
