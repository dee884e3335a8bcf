"""The Hopper backend's LSTMs against single steps and torch's LSTM in float64."""

import ctypes
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from exadec.model.adaptive import RecurrentCell
from exadec.model.backends.choice import pick_device
from exadec.model.backends.hopper import launch, lstm
from exadec.model.backends.reference import REFERENCE, Backend
from exadec.model.encoder import BiLstmEncoder
from support import kernel_stand_ins

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
needs_hopper = pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")
ON_GPU = [pytest.mark.cuda, needs_hopper]
SIZES = [(256, 256), (300, 300), (64, 64), (128, 160), (256, 0), (300, 0), (64, 0), (32, 0), (52, 0)]
"""Hidden units and rank; no rank for an ordinary LSTM."""
LIMIT = 227 * 1024
"""Shared memory that a block of a Hopper GPU may have."""


def clusters(hidden: int, rank: int) -> int:
    return next(size for size in (1, 2, 4, 8) if size >= (4 if rank else 1) and max(hidden, rank) <= 40 * size)


@pytest.mark.parametrize(("hidden", "rank"), SIZES)
def test_source_compiles_for_all_sizes_in_use(hidden: int, rank: int) -> None:
    if launch.find_compiler() is None:
        nvrtc = pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
        folder = Path(next(iter(nvrtc.__path__))) / "lib"
        ctypes.CDLL(str(next(folder.glob("libnvrtc-builtins.so.*"))), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(folder / "libnvrtc.so.13"), mode=ctypes.RTLD_GLOBAL)
        launch.find_compiler.cache_clear()
    layout = launch.Layout(hidden, rank, clusters(hidden, rank), 16)
    assert len(launch.compile_kernels(layout)) > 10_000


@pytest.mark.parametrize(("hidden", "rank"), SIZES)
def test_layouts_cover_all_units_and_fit_on_the_chip(hidden: int, rank: int) -> None:
    layout = launch.Layout(hidden, rank, clusters(hidden, rank), 16)
    assert hidden <= layout.cluster * layout.units < hidden + 8 * layout.cluster + 16
    assert layout.cluster * layout.units % 16 == 0
    if rank:
        assert rank <= layout.narrow * layout.cluster // 4
    for kernel in ("adaptive_forward", "adaptive_backward") if rank else ("plain_forward", "plain_backward"):
        assert layout.shared_bytes(kernel) <= LIMIT


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=ON_GPU)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the kernels run. On a CPU stand-ins take their place, so that the code around them is tested there, too."""
    pytest.importorskip("triton", reason="Triton is not installed")
    if request.param == "cpu":
        kernel_stand_ins.use(monkeypatch)
    return str(request.param)


def hopper() -> Backend:
    from exadec.model.backends.hopper import HopperBackend  # Triton, which is not installed everywhere

    return HopperBackend(pick_device())


def limit(device: str, batch: int, steps: int) -> tuple[int, int]:
    """How rows are shared out among blocks does not matter to stand-ins."""
    return (min(batch, 5), min(steps, 6)) if device == "cpu" else (batch, steps)


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    assert found.isfinite().all()
    return float((found.detach().cpu().double() - wanted).norm() / wanted.norm())


def worst(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    return max(error(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize(
    ("linear", "hidden", "rank", "groups", "batch", "steps"),
    [
        ("factored", 256, 256, 1, 64, 30),
        ("factored", 256, 128, 4, 37, 9),
        ("factored", 256, 256, 1, 512, 5),
        ("factored", 256, 256, 1, 1000, 3),
        ("factored", 300, 300, 1, 70, 6),
        ("factored", 300, 300, 4, 600, 4),
        ("factored", 64, 64, 1, 20, 5),
        ("factored", 128, 160, 1, 33, 1),
        ("fixed", 256, 0, 1, 64, 30),
        ("fixed", 256, 0, 1, 512, 5),
        ("fixed", 256, 0, 1, 1500, 3),
        ("fixed", 300, 0, 1, 1100, 3),
        ("fixed", 32, 0, 1, 700, 5),
        ("fixed", 52, 0, 1, 18, 1),
    ],
)
def test_decoder_and_all_gradients_equal_single_steps(
    device: str, linear: str, hidden: int, rank: int, groups: int, batch: int, steps: int
) -> None:
    torch.manual_seed(0)
    batch, steps = limit(device, batch, steps)
    inputs = hidden + 8
    reference = RecurrentCell("lstm", inputs, hidden, linear, rank).double()
    with torch.no_grad():
        reference.B.normal_(std=0.1)
    cell = RecurrentCell("lstm", inputs, hidden, linear, rank).to(device)
    cell.load_state_dict(reference.state_dict())
    values = [torch.randn(batch, steps, inputs), torch.randn(batch, hidden), torch.randn(batch, hidden)]
    if rank:
        values.append(torch.randn(batch, groups, rank))
    wanted = torch.randn(batch, steps, hidden, dtype=torch.float64)

    results = []
    for one, leaves in (
        (reference, [value.double().requires_grad_() for value in values]),
        (cell, [value.to(device).requires_grad_() for value in values]),
    ):
        x, h, c, *rest = leaves
        lam = rest[0] if rest else None
        hidden_states = (hopper() if one is cell else REFERENCE).unroll(one, x, lam)((h, c))
        if one is cell:
            assert hidden_states.dtype == torch.bfloat16, "the kernels were not used"
        loss = (hidden_states.double() * wanted.to(hidden_states.device)).sum()
        results.append([hidden_states, *torch.autograd.grad(loss, [*leaves, *one.parameters()])])
    exact, found = results
    assert worst(found, [tensor.detach() for tensor in exact]) < (0.05 if steps == 30 else 0.02)


def share_memory(tensors: list[torch.Tensor]) -> bool:
    """An LSTM's two biases have equal gradients. Clipping scales gradients in place: none may be another."""
    places = sorted((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in tensors)
    return any(end > begin for (_, end), (begin, _) in pairwise(places))


@pytest.mark.parametrize(
    ("inputs", "hidden", "layers", "batch", "steps"),
    [(256, 256, 3, 64, 20), (256, 256, 2, 600, 6), (300, 300, 3, 45, 7), (256, 32, 1, 40, 9), (64, 256, 2, 33, 5)],
)
def test_encoder_and_all_gradients_equal_torch(
    device: str, inputs: int, hidden: int, layers: int, batch: int, steps: int
) -> None:
    torch.manual_seed(0)
    batch, steps = limit(device, batch, steps)
    reference = BiLstmEncoder(inputs, hidden, layers, dropout=0.0).double()
    encoder = BiLstmEncoder(inputs, hidden, layers, dropout=0.0).to(device)
    encoder.load_state_dict(reference.state_dict())
    lengths = torch.randint(1, steps + 1, (batch,))
    lengths[0] = steps
    words = (torch.arange(steps) < lengths[:, None])[:, :, None]
    value = torch.randn(batch, steps, inputs)
    wanted = torch.randn(batch, steps, 2 * hidden, dtype=torch.float64) * words
    wanted_last = torch.randn(batch, 2 * hidden, dtype=torch.float64)

    results = []
    for one, place in ((reference, "cpu"), (encoder, device)):
        x = value.to(place, torch.float64 if one is reference else torch.float32).requires_grad_()
        positions, last = one(x, lengths.to(place), hopper() if one is encoder else REFERENCE)
        if one is encoder:
            assert last.dtype == torch.bfloat16, "the kernels were not used"
        loss = (positions.double() * wanted.to(place)).sum() + (last.double() * wanted_last.to(place)).sum()
        loss.backward()
        gradients = [parameter.grad for parameter in one.parameters() if parameter.grad is not None]
        assert not share_memory(gradients)
        results.append([positions * words.to(place), last, x.grad, *gradients])
    exact, found = results
    assert worst(found, [tensor.detach() for tensor in exact]) < 0.03


@pytest.mark.parametrize("copies", [1, 2])
def test_dropout_and_residual_are_those_of_the_formula(device: str, copies: int) -> None:
    """out = LSTM(x ⊙ mask) + x for each direction, with its own mask."""
    torch.manual_seed(0)
    batch, steps, size = 40, 6, 64
    lstms = [torch.nn.LSTM(size, size, batch_first=True).double() for _ in range(2)]
    x = torch.randn(copies, batch, steps, size)
    mask = torch.rand(2, batch, 1, size).gt(0.3) / 0.7
    wanted = torch.randn(2, batch, steps, size, dtype=torch.float64)
    lengths = torch.full((batch,), steps, dtype=torch.int32)

    exact_x = x.double().requires_grad_()
    masked = exact_x * mask.double()
    ahead, back = lstms[0](masked[0])[0], lstms[1](masked[1].flip(1))[0].flip(1)
    exact = torch.stack([ahead, back]) + exact_x
    (exact_grad,) = torch.autograd.grad((exact * wanted).sum(), exact_x)

    our_x = x.to(device).requires_grad_()
    weights = [parameter.detach().float().to(device) for lstm in lstms for parameter in lstm.parameters()]
    states, _ = lstm.PlainLayer.apply(our_x, mask.float().to(device), True, lengths.to(device), None, None, *weights)
    (grad,) = torch.autograd.grad((states.double() * wanted.to(device)).sum(), our_x)
    assert error(states, exact.detach()) < 0.01
    assert error(grad, exact_grad) < 0.01


@pytest.mark.cuda
@needs_hopper
def test_same_inputs_give_the_same_bits() -> None:
    """What blocks exchange arrives in any order; the sums do not depend on it."""
    torch.manual_seed(0)
    cell = RecurrentCell("lstm", 256, 256, "factored", 256).cuda()
    x, h, lam = torch.randn(200, 12, 256).cuda(), torch.randn(200, 256).cuda(), torch.randn(200, 1, 256).cuda()
    lam.requires_grad_()

    def run() -> list[torch.Tensor]:
        states = hopper().unroll(cell, x, lam)((h, h))
        return [states, *torch.autograd.grad(states.float().square().sum(), [lam, *cell.parameters()])]

    first = run()
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(first, run(), strict=True))
