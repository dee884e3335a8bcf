"""The paper: a decoder whose weights are built from an exemplar (section 3).

In: the exemplar's encoding a. Out: coefficients λ, and recurrent cells with P = U·diag(λ)·Vᵀ that never build P.
"""

import math

import torch
from torch import distributed, nn
from torch.nn import functional

from exadec.model.cells import CELLS, State


class Coefficients(nn.Module):
    """λ = C·a (equation 11), scaled to a fixed norm, √D in the paper (appendix A.1).

    With a = 0 there is no direction to scale. Then all λᵢ are equal, with the same norm: a plain decoder U·Vᵀ.
    Without a norm λ is C·a as it is; it may start at zero.
    """

    def __init__(self, encoding: int, rank: int, groups: int, norm: float | None, start_at_zero: bool = False):
        super().__init__()
        self.rank, self.groups, self.norm = rank, groups, norm
        self.C = nn.Parameter(torch.zeros(groups * rank, encoding))
        if not start_at_zero:
            nn.init.xavier_uniform_(self.C)

    def forward(self, a: torch.Tensor) -> torch.Tensor:  # (B, A) -> (B, groups, R)
        lam = functional.linear(a, self.C).unflatten(-1, (self.groups, self.rank)).to(self.C.dtype)
        if self.norm is None:
            return lam
        length = torch.linalg.vector_norm(lam, dim=-1, keepdim=True)
        lam = torch.where(length > 0, lam, 1.0)
        return lam * (self.norm / torch.where(length > 0, length, math.sqrt(self.rank)))


class Centring(nn.Module):
    """a -> a less the mean that it has had in training.

    The encodings of all exemplars have a large part in common. Without a fixed norm, C soon turns that part into
    coefficients that are large and the same for every exemplar; then they say little about any one of them.
    """

    MEMORY = 100
    """Steps over which the mean is taken, roughly."""

    def __init__(self, encoding: int):
        super().__init__()
        self.mean: torch.Tensor
        self.steps: torch.Tensor
        self.register_buffer("mean", torch.zeros(encoding))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, a: torch.Tensor) -> torch.Tensor:  # (N, A) -> (N, A)
        return a - self.mean.to(a.dtype)

    @torch.no_grad()
    def update(self, a: torch.Tensor, real: torch.Tensor) -> None:
        """Take a step of training into account, of all processes together; `real` (N,) bool: which rows count."""
        rows = real[:, None].to(self.mean.dtype)
        sums = torch.cat([(rows * a).sum(0), rows.sum(0)])  # (A + 1,); a product of matrices may be rounded to bfloat16
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(sums)
        counted = sums[-1].clamp_max(1)  # 0 if no row counts: then nothing changes
        self.steps += counted
        share = counted * (1 / self.steps.clamp_min(1)).clamp_min(1 / self.MEMORY)  # at first the mean of all steps
        self.mean.lerp_(sums[:-1] / sums[-1].clamp_min(1), share)


class FactoredLinear(nn.Module):
    """x -> U(λ ⊙ Vᵀx), with separate U and V for each gate: equations 6 to 10, with rank-1 matrices Pᵢ = uᵢ ⊗ vᵢ.

    Each row of a batch has its own λ, but all rows share U and V. So this is two ordinary matrix products with an
    element-wise scaling between them.
    """

    def __init__(self, inputs: int, outputs: int, gates: int, rank: int):
        super().__init__()
        # Stored as Vᵀ and Uᵀ, the way the two products read them.
        self.V = nn.Parameter(torch.stack([_unit_vectors(rank, inputs) for _ in range(gates)]))  # (G, R, inputs)
        self.U = nn.Parameter(torch.stack([_unit_vectors(rank, outputs) for _ in range(gates)]))  # (G, R, outputs)

    def forward(self, x: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        """(B, T, inputs) with λ (B, 1 or G, R) -> (B, T, G, outputs)."""
        gates, rank, _ = self.U.shape
        projected = functional.linear(x, self.V.flatten(0, 1)).unflatten(-1, (gates, rank))  # (B, T, G, R)
        scaled = projected * lam[:, None].to(projected.dtype)
        grouped = scaled.flatten(0, 1).transpose(0, 1)  # (G, B·T, R)
        result = torch.bmm(grouped, self.U.to(grouped.dtype))  # (G, B·T, outputs)
        return result.transpose(0, 1).unflatten(0, x.shape[:2])

    def materialize(self, lam: torch.Tensor) -> torch.Tensor:
        """(B, G, outputs, inputs): P itself, for tests and inspection only."""
        lam = lam.expand(-1, len(self.U), -1)
        return torch.einsum("gro,bgr,gri->bgoi", self.U, lam, self.V)


class Extension(nn.Module):
    """x -> [x; λ ⊙ Vᵀx; λ]: with such an input, any ordinary layer adapts to the exemplar.

    A layer with the weights [W U B] computes (W + U·diag(λ)·Vᵀ)x + Bλ from it: W is what all texts share, the rest is
    what the exemplar changes. In the paper's form W is missing, and has to be learnt through U, λ and V.
    """

    def __init__(self, inputs: int, rank: int):
        super().__init__()
        self.V = nn.Parameter(_unit_vectors(rank, inputs))  # (R, inputs)

    def widen(self, plain: torch.Tensor) -> torch.Tensor:
        """Initial weights [W U B] for a layer that would have W without λ: (..., outputs, inputs) -> inputs + 2R.

        W is the same, so that training starts from an ordinary layer; the columns of U are unit vectors, and B is zero.
        """
        *layers, outputs, _ = plain.shape
        rank = len(self.V)
        U = torch.stack([_unit_vectors(rank, outputs).t() for _ in range(math.prod(layers))])  # noqa: N806
        return torch.cat([plain, U.view(*layers, outputs, rank), plain.new_zeros(*layers, outputs, rank)], dim=-1)

    def forward(self, x: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        """(B, T, inputs) with λ (B, 1, R) -> (B, T, inputs + 2R)."""
        narrow = functional.linear(x, self.V)  # (B, T, R)
        lam = lam.to(narrow.dtype)
        return torch.cat([x.to(narrow.dtype), lam * narrow, lam.expand_as(narrow)], dim=2)


class UnconstrainedLinear(nn.Module):
    """x -> (Σᵢ λᵢPᵢ)x with full matrices Pᵢ (equation 5): r times the parameters. For tests and ablations."""

    def __init__(self, inputs: int, outputs: int, gates: int, rank: int):
        super().__init__()
        scale = 1 / math.sqrt(inputs * rank)
        self.P = nn.Parameter(torch.randn(gates, rank, outputs, inputs) * scale)

    def forward(self, x: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        """(B, T, inputs) with λ (B, 1 or G, R) -> (B, T, G, outputs)."""
        return torch.einsum("bgoi,bti->btgo", self.materialize(lam).to(x.dtype), x)

    def materialize(self, lam: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bgr,groi->bgoi", lam.expand(-1, len(self.P), -1), self.P)


class FixedLinear(nn.Module):
    """x -> Wx for each gate: the map of an ordinary cell, the same for every exemplar unless its input is extended."""

    def __init__(self, inputs: int, outputs: int, gates: int, extension: Extension | None = None):
        super().__init__()
        weight = torch.stack([_orthogonal(outputs, inputs) for _ in range(gates)])
        # (G, outputs, inputs, or inputs + 2R with an extension)
        self.weight = nn.Parameter(weight if extension is None else extension.widen(weight))

    def forward(self, x: torch.Tensor, lam: torch.Tensor | None) -> torch.Tensor:
        """(B, T, inputs) -> (B, T, G, outputs)."""
        gates, outputs, _ = self.weight.shape
        return functional.linear(x, self.weight.flatten(0, 1)).unflatten(-1, (gates, outputs))


LINEARS = {"factored": FactoredLinear, "unconstrained": UnconstrainedLinear}
"""The maps of adaptive cells, by `model.weights`."""


class RecurrentCell(nn.Module):
    """An Elman network, GRU or LSTM. Its input map Q, recurrent map P and bias may depend on λ.

    If adaptive, Q and P are built from λ, and the bias is b = Bλ (footnote of section 3.1). Otherwise all three are
    plain parameters, and with an extension Q reads extended inputs.
    """

    def __init__(
        self,
        cell: str,
        inputs: int,
        hidden: int,
        linear: str = "fixed",
        rank: int = 0,
        extension: Extension | None = None,
    ):
        super().__init__()
        self.cell = CELLS[cell]
        gates = self.cell.gates
        if linear == "fixed":
            self.Q: nn.Module = FixedLinear(inputs, hidden, gates, extension)
            self.P: nn.Module = FixedLinear(hidden, hidden, gates)
            self.B = nn.Parameter(torch.zeros(gates, hidden))
        else:
            build = LINEARS[linear]
            self.Q = build(inputs, hidden, gates, rank)
            self.P = build(hidden, hidden, gates, rank)
            self.B = nn.Parameter(torch.zeros(gates, hidden, rank))
        self.offset: torch.Tensor
        self.register_buffer("offset", torch.tensor(self.cell.offsets)[:, None].repeat(1, hidden), persistent=False)

    def bias(self, lam: torch.Tensor | None) -> torch.Tensor:
        """(B or 1, G, D)"""
        if lam is None:
            return (self.B + self.offset)[None]
        lam = lam.expand(-1, len(self.B), -1)  # (B, G, R)
        return torch.einsum("gdr,bgr->bgd", self.B, lam.to(self.B.dtype)) + self.offset

    def project(self, x: torch.Tensor, lam: torch.Tensor | None) -> torch.Tensor:
        """The input half of the gates for all time steps at once: (B, T, inputs) -> (B, T, G, D)."""
        projected: torch.Tensor = self.Q(x, lam) + self.bias(lam)[:, None]
        return projected

    def step(self, projected: torch.Tensor, state: State, lam: torch.Tensor | None) -> State:
        """One time step: projected (B, G, D) and the state (B, D) each -> the next state."""
        recurrent = self.P(state[0][:, None], lam)[:, 0]  # (B, G, D)
        return self.cell.update(projected, recurrent, state)


def _unit_vectors(count: int, size: int) -> torch.Tensor:
    """(count, size): unit vectors, orthogonal to one another as far as `size` allows.

    At r = d, U and V are random orthogonal matrices, so the singular values of P start out as |λᵢ|. With ‖λ‖ = √d its
    Frobenius norm is that of an orthogonal matrix. Unit vectors keep that norm for any other r.
    """
    return functional.normalize(_orthogonal(count, size), dim=1)


def _orthogonal(rows: int, columns: int) -> torch.Tensor:
    """A random matrix with orthogonal rows or columns. LAPACK rounds differently on several threads, so it gets one.

    Otherwise one seed would start from other weights wherever the number of threads is another: on a machine with more
    cores, or with fewer runs side by side.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return nn.init.orthogonal_(torch.empty(rows, columns))
    finally:
        torch.set_num_threads(threads)
