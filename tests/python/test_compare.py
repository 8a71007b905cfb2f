"""compare.py: units in the last place, perturbation and scaled errors, against numpy."""
import numpy as np
import pytest
import torch

from kernelopt import compare

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def test_ulp_is_numpys_spacing():
    values = np.array([1.0, 1.5, 2.0, 3.0e-38, 1e-45, 0.0, 1e30, -7.25], dtype=np.float32)
    got = compare.ulp(torch.from_numpy(values.astype(np.float64)), torch.float32)
    np.testing.assert_array_equal(got.numpy(), np.spacing(np.abs(values)).astype(np.float64))


@pytest.mark.parametrize("dtype", FLOATS)
def test_perturb_moves_each_finite_value_by_one_ulp(dtype):
    values = torch.tensor([1.0, -3.0, 0.1, 1e-3, 60000.0, -2.0]).to(dtype)
    moved = compare.perturb(values, seed=3)
    difference = (moved.double() - values.double()).abs()
    assert (difference > 0).all()
    assert (difference <= compare.ulp(values.double(), dtype)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_perturb_by_steps_is_as_many_units_in_the_last_place(dtype):
    values = torch.randn(1000, dtype=dtype) * 100
    moved = compare.perturb(values, 3, steps=16)
    units = (moved.double() - values.double()).abs() / compare.ulp(values.double(), dtype)
    assert (units >= 8).all() and (units <= 32).all()  # half or twice at a power of two
    tiny = torch.tensor([torch.finfo(dtype).max, -torch.finfo(dtype).max, 0.0], dtype=dtype)
    assert compare.bitwise_equal(compare.perturb(tiny, 1, steps=16), tiny)
    assert [compare.perturbation_steps(dtype, run) for run in (1, 2, 3)] == [1, 16, 1]
    assert compare.perturbation_steps(torch.bfloat16, 2) == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_perturb_leaves_what_can_not_move(dtype):
    fixed = torch.tensor([0.0, float("inf"), float("-inf"), float("nan")]).to(dtype)
    assert compare.bitwise_equal(compare.perturb(fixed, 1), fixed)
    integers = torch.arange(4)
    assert compare.perturb(integers, 1) is integers


def test_perturb_keeps_strides_and_goes_both_ways():
    values = torch.ones(64, 64).t()[:, ::2]
    moved = compare.perturb(values, seed=1)
    assert moved.stride() == torch.empty_strided(values.size(), values.stride()).stride()
    assert (moved > values).any() and (moved < values).any()


def test_scaled_error_counts_in_ulps():
    reference = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    value = torch.tensor([1.0, 2.0 + 2.0**-22, 4.0], dtype=torch.float32)
    error = compare.scaled_error(value, reference, None)
    assert error.maximum == 1.0
    assert error.rms == pytest.approx((1 / 3) ** 0.5)
    assert error.nonfinite_mismatches == 0


def test_scaled_error_widens_by_the_conditioning():
    reference = torch.tensor([1.0], dtype=torch.float64)
    value = torch.tensor([1.0 + 2.0**-20], dtype=torch.float32)
    j = torch.tensor([2.0**-23 * 7], dtype=torch.float32)
    assert compare.scaled_error(value, reference, j).maximum == pytest.approx(1.0)


def test_nonfinite_classes_must_agree_with_one_of_the_two():
    reference = torch.tensor([float("nan"), float("inf"), 1e300, 1.0], dtype=torch.float64)
    right = torch.tensor([float("nan"), float("inf"), float("inf"), 1.0])
    assert compare.scaled_error(right, reference, None).nonfinite_mismatches == 0
    wrong = torch.tensor([0.0, float("-inf"), float("nan"), float("nan")])
    assert compare.scaled_error(wrong, reference, None).nonfinite_mismatches == 4
    assert compare.scaled_error(wrong, reference, None, wrong).nonfinite_mismatches == 0


def test_conditioning_is_the_rms_of_changes():
    base = torch.zeros(2, dtype=torch.float64)
    collected = compare.Conditioning(base)
    for change in (3.0, 4.0):
        collected.add(torch.tensor([change, 0.0], dtype=torch.float64))
    assert collected.j().tolist() == [pytest.approx((12.5) ** 0.5), 0.0]


def test_bitwise_equal_tells_zeros_and_nans_apart():
    zero = torch.tensor([0.0])
    assert not compare.bitwise_equal(zero, -zero)
    nan = torch.tensor([float("nan")])
    assert compare.bitwise_equal(nan, nan.clone())
    assert not compare.bitwise_equal(torch.zeros(2), torch.zeros(3))
    assert not compare.bitwise_equal(torch.zeros(2), torch.zeros(2, dtype=torch.int32))
    assert compare.bitwise_equal(torch.zeros(0), torch.zeros(0))


def test_a_large_tensor_is_compared_in_slices(monkeypatch):
    monkeypatch.setattr(compare, "_SLICE", 7)
    value = torch.randn(100)
    reference = value.double()
    assert compare.scaled_error(value, reference, None).maximum == 0
    value[63] += 1
    assert compare.scaled_error(value, reference, None).maximum > 1e3
