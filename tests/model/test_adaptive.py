"""The adaptive cells against ordinary torch cells loaded with the materialised weights."""

import itertools
import math

import pytest
import torch
from torch import nn

from exadec.model.adaptive import (
    LINEARS,
    Centring,
    Coefficients,
    Extension,
    FactoredLinear,
    RecurrentCell,
    UnconstrainedLinear,
)
from exadec.model.cells import CELLS
from support.small_models import batch_for, build_small_model

B, T, D, INPUTS = 3, 4, 5, 6
ORACLES = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "elman": nn.RNNCell}


def build_cell(name: str, linear: str, rank: int) -> RecurrentCell:
    torch.manual_seed(1)
    cell = RecurrentCell(name, INPUTS, D, linear, rank).double()
    with torch.no_grad():
        cell.B.normal_()  # zero at the start of training, which would hide a wrong bias
    return cell


def materialize_bias(cell: RecurrentCell, lam: torch.Tensor) -> torch.Tensor:
    """(B, G, D): Bλ and the constant offset of each gate."""
    rows = [
        torch.stack([cell.B[g] @ lam[i, g % lam.shape[1]] + cell.offset[g] for g in range(cell.cell.gates)])
        for i in range(len(lam))
    ]
    return torch.stack(rows)


def run_adaptive(cell: RecurrentCell, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, lam: torch.Tensor):
    projected, outputs = cell.project(x, lam), []
    state = (h, c)[: len(cell.cell.states)]
    for t in range(x.shape[1]):
        state = cell.step(projected[:, t], state, lam)
        outputs.append(state[0])
    return torch.stack(outputs, dim=1)


def run_materialized(cell: RecurrentCell, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, lam: torch.Tensor):
    """One torch cell for each example, with P, Q and b built from its own λ; differentiable through functional_call."""
    recurrent, inputs, biases = cell.P.materialize(lam), cell.Q.materialize(lam), materialize_bias(cell, lam)
    rows = []
    for i in range(len(x)):
        oracle = ORACLES[cell.cell.name](INPUTS, D).double()
        weights = {
            "weight_ih": inputs[i].flatten(0, 1),
            "weight_hh": recurrent[i].flatten(0, 1),
            "bias_ih": biases[i].flatten(),
            "bias_hh": torch.zeros(cell.cell.gates * D, dtype=torch.float64),
        }
        state = (h[i : i + 1], c[i : i + 1]) if len(cell.cell.states) == 2 else h[i : i + 1]
        outputs = []
        for t in range(x.shape[1]):
            state = torch.func.functional_call(oracle, weights, (x[i : i + 1, t], state))
            outputs.append(state[0] if len(cell.cell.states) == 2 else state)
        rows.append(torch.cat(outputs))
    return torch.stack(rows)


@pytest.mark.parametrize("groups", ["shared", "per-gate"])
@pytest.mark.parametrize("rank", [2, D, 9])
@pytest.mark.parametrize("linear", LINEARS)
@pytest.mark.parametrize("name", CELLS)
def test_cell_equals_torch_cell_with_materialized_weights(name: str, linear: str, rank: int, groups: str) -> None:
    cell = build_cell(name, linear, rank)
    count = cell.cell.gates if groups == "per-gate" else 1
    lam = torch.randn(B, count, rank, dtype=torch.float64, requires_grad=True)
    x, h, c = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in [(B, T, INPUTS), (B, D), (B, D)]
    )
    ours, theirs = run_adaptive(cell, x, h, c, lam), run_materialized(cell, x, h, c, lam)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)

    leaves = {"x": x, "h": h, "λ": lam, **dict(cell.named_parameters())}
    if len(cell.cell.states) == 2:
        leaves["c"] = c
    weights = torch.randn_like(ours)
    our_gradients = torch.autograd.grad((ours * weights).sum(), list(leaves.values()))
    their_gradients = torch.autograd.grad((theirs * weights).sum(), list(leaves.values()))
    for name, mine, oracle in zip(leaves, our_gradients, their_gradients, strict=True):
        assert oracle.abs().max() > 0, f"the oracle has no gradient for {name}"
        torch.testing.assert_close(mine, oracle, rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def test_fixed_lstm_equals_torch_lstm() -> None:
    torch.manual_seed(2)
    cell = RecurrentCell("lstm", INPUTS, D).double()
    with torch.no_grad():
        cell.B.normal_()
    oracle = nn.LSTM(INPUTS, D, batch_first=True).double()
    with torch.no_grad():
        oracle.weight_ih_l0.copy_(cell.Q.weight.flatten(0, 1))
        oracle.weight_hh_l0.copy_(cell.P.weight.flatten(0, 1))
        oracle.bias_ih_l0.copy_(cell.bias(None).flatten())
        oracle.bias_hh_l0.zero_()
    x, h, c = torch.randn(B, T, INPUTS).double(), torch.randn(B, D).double(), torch.randn(B, D).double()
    torch.testing.assert_close(run_adaptive(cell, x, h, c, None), oracle(x, (h[None], c[None]))[0])


def test_factored_is_the_rank_one_case_of_unconstrained() -> None:
    """Equation 6: with Pᵢ = uᵢ ⊗ vᵢ the sum of equation 5 is U·diag(λ)·Vᵀ."""
    torch.manual_seed(3)
    factored, full = FactoredLinear(INPUTS, D, 2, 4), UnconstrainedLinear(INPUTS, D, 2, 4)
    with torch.no_grad():
        full.P.copy_(torch.einsum("gro,gri->groi", factored.U, factored.V))
    x, lam = torch.randn(B, T, INPUTS), torch.randn(B, 1, 4)
    torch.testing.assert_close(factored(x, lam), full(x, lam))


def test_extended_input_makes_an_ordinary_layer_adaptive() -> None:
    """[W U B] of [x; λ ⊙ Vᵀx; λ] is (W + U·diag(λ)·Vᵀ)x + Bλ, with the matrix built word by word."""
    torch.manual_seed(5)
    extension, layer = Extension(INPUTS, 4).double(), torch.randn(D, INPUTS + 8).double()
    x, lam = torch.randn(B, T, INPUTS).double(), torch.randn(B, 1, 4).double()
    found = extension(x, lam) @ layer.T
    W, U, to_bias = layer.split([INPUTS, 4, 4], dim=1)  # noqa: N806 - the paper's names
    for i, t in itertools.product(range(B), range(T)):
        built = W + sum(lam[i, 0, r] * torch.outer(U[:, r], extension.V[r]) for r in range(4))
        torch.testing.assert_close(found[i, t], built @ x[i, t] + to_bias @ lam[i, 0])


@pytest.mark.parametrize("layers", [(), (4,)], ids=["one", "four"])
def test_extended_layer_starts_as_the_plain_one(layers: tuple[int, ...]) -> None:
    plain = torch.randn(*layers, D, INPUTS)
    W, U, to_bias = Extension(INPUTS, 3).widen(plain).split([INPUTS, 3, 3], dim=-1)  # noqa: N806
    torch.testing.assert_close(W, plain)
    torch.testing.assert_close(U.norm(dim=-2), torch.ones(*layers, 3))
    assert (to_bias == 0).all()


@pytest.mark.parametrize("start_at_zero", [False, True])
def test_coefficients_without_a_norm_are_c_times_a_and_may_start_at_zero(start_at_zero: bool) -> None:
    coefficients = Coefficients(encoding=7, rank=9, groups=2, norm=None, start_at_zero=start_at_zero)
    a = torch.randn(B, 7)
    assert (coefficients(a) == 0).all() == start_at_zero
    torch.nn.init.normal_(coefficients.C)
    torch.testing.assert_close(coefficients(a).flatten(1), a @ coefficients.C.T)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("zero", [False, True], ids=["random", "zero"])
def test_coefficients_have_the_norm_of_the_appendix(zero: bool, groups: int) -> None:
    coefficients = Coefficients(encoding=7, rank=9, groups=groups, norm=math.sqrt(D))
    a = (torch.zeros if zero else torch.randn)(B, 7).requires_grad_()
    lam = coefficients(a)
    assert lam.shape == (B, groups, 9)
    torch.testing.assert_close(lam.norm(dim=2), torch.full((B, groups), math.sqrt(D)))
    lam.square().mul(torch.arange(9.0)).sum().backward()
    assert a.grad is not None
    assert torch.isfinite(a.grad).all()
    assert torch.isfinite(coefficients.C.grad).all()


def test_coefficients_are_c_times_a_up_to_scale() -> None:
    coefficients = Coefficients(encoding=7, rank=9, groups=1, norm=2.0)
    a = torch.randn(B, 7)
    expected = torch.nn.functional.normalize(a @ coefficients.C.T, dim=1) * 2.0
    torch.testing.assert_close(coefficients(a)[:, 0], expected)


@pytest.mark.parametrize("rank", [2, D, 9])
def test_initial_weights_have_the_frobenius_norm_of_an_orthogonal_matrix(rank: int) -> None:
    """At any rank P starts out at about the scale it has at r = d, where U and V are orthogonal."""
    torch.manual_seed(4)
    linear = FactoredLinear(D, D, 50, rank)
    lam = torch.nn.functional.normalize(torch.randn(20, 1, rank), dim=2) * math.sqrt(D)
    norms = linear.materialize(lam).square().sum(dim=(2, 3))
    assert norms.mean().item() == pytest.approx(D, rel=0.15)


@pytest.mark.parametrize(
    ("linear", "rank", "expected"),
    [
        ("fixed", 0, 2 * 64**2 + 64),
        ("factored", 64, 4 * 64**2 + 64**2),
        ("unconstrained", 64, 64 * 2 * 64**2 + 64**2),
    ],
)
def test_parameter_counts_of_the_elman_network_are_the_papers(linear: str, rank: int, expected: int) -> None:
    """Section 3.1: 4d² against 2d² at r = d, and a bias of d² against d."""
    cell = RecurrentCell("elman", 64, 64, linear, rank)
    assert sum(parameter.numel() for parameter in cell.parameters()) == expected


def test_centring_takes_away_what_all_exemplars_share() -> None:
    """At first the mean of all steps, later mostly of the last hundred; rows that only fill a batch do not count."""
    centring = Centring(3).double()
    means = torch.randn(300, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spread = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0], [9.0, 9, 9]]).double()
    real, expected = torch.tensor([True, True, False]), torch.zeros(3, dtype=torch.float64)
    for step, mean in enumerate(means, start=1):
        centring.update(mean + spread, real)
        expected += (mean - expected) * max(1 / step, 0.01)
        if step == 50:
            torch.testing.assert_close(centring.mean, means[:50].mean(0))
    torch.testing.assert_close(centring.mean, expected)
    torch.testing.assert_close(centring(expected + spread), spread)


def test_centring_stays_as_it_is_after_a_step_in_which_no_row_counts() -> None:
    """Either the very first step, or one after others."""
    centring, nothing = Centring(3).double(), torch.zeros(2, dtype=torch.bool)
    for steps in (0, 1):
        before = centring.mean.clone()
        centring.update(torch.full((2, 3), 7.0, dtype=torch.float64), nothing)
        assert centring.steps == steps
        torch.testing.assert_close(centring.mean, before)
        centring.update(torch.ones(2, 3, dtype=torch.float64), ~nothing)
    torch.testing.assert_close(centring.mean, torch.ones(3, dtype=torch.float64))


def test_centring_learns_in_training_only() -> None:
    model = build_small_model(weights="residual")
    batch = batch_for(model.config, 5)
    model(batch)
    assert model.centring.steps == 0
    model.train()(batch)
    assert model.centring.steps == 1
    assert model.centring.mean.abs().max() > 0
    assert {"centring.mean", "centring.steps"} <= model.state_dict().keys()  # so checkpoints keep them
    assert build_small_model().centring is None  # the paper's λ has a norm and cannot grow
