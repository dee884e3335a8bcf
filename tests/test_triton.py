"""The Triton backend's kernels against the reference: interpreted on a CPU, and on a GPU."""

import pytest
import torch
from conftest import interpret_kernels
from test_softmax import largest_difference, losses

from exadec.corpus.vocabulary import PAD
from exadec.model.adaptive import RecurrentCell
from exadec.model.backends.reference import REFERENCE, Backend

GROUPS = [1, 4]
"""One λ for all gates, or one for each."""


# The adaptive LSTM ----------------------------------------------------------------------------------------------------


def run(
    cell: RecurrentCell, values: list[torch.Tensor], wanted: torch.Tensor, dtype: torch.dtype, backend: Backend
) -> list[torch.Tensor]:
    """Hidden states and all gradients, in float64 on the CPU; products are done in `dtype`."""
    device = cell.B.device
    x, h, c, lam = leaves = [value.to(device, cell.B.dtype).requires_grad_() for value in values]
    cell.zero_grad()
    with torch.autocast(device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
        hidden = backend.unroll(cell, x, lam)((h, c))
    (hidden.to(cell.B.dtype) * wanted.to(device, cell.B.dtype)).sum().backward()
    return [hidden.detach().cpu().double()] + [leaf.grad.cpu().double() for leaf in (*leaves, *cell.parameters())]


def errors(groups: int, rank: int, device: str, dtype: torch.dtype, sizes: tuple[int, int, int]) -> tuple[float, float]:
    """Largest relative errors of the kernels and of single steps, against single steps in float64."""
    from exadec.model.backends.triton import TritonBackend

    batch, steps, hidden = sizes
    torch.manual_seed(0)
    reference = RecurrentCell("lstm", hidden, hidden, "factored", rank).double()
    with torch.no_grad():
        reference.B.normal_(std=0.1)
    values = [torch.randn(batch, steps, hidden), torch.randn(batch, hidden), torch.randn(batch, hidden)]
    values.append(torch.randn(batch, groups, rank))
    wanted = torch.randn(batch, steps, hidden)
    cell = RecurrentCell("lstm", hidden, hidden, "factored", rank).to(device)
    cell.load_state_dict(reference.state_dict())
    exact = run(reference, values, wanted, torch.float64, REFERENCE)
    worst = []
    for backend in (TritonBackend(torch.device(device)), REFERENCE):
        found = run(cell, values, wanted, dtype, backend)
        worst.append(max(float((a - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)))
    return worst[0], worst[1]


LSTM = """
import torch
from test_triton import GROUPS, errors
print(max(errors(groups, 5, "cpu", torch.float32, (3, 4, 6))[0] for groups in GROUPS))
"""


def test_lstm_is_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(LSTM)) < 2e-6


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(64, 30, 256), (7, 5, 300)])
def test_lstm_on_a_gpu_is_as_exact_as_single_steps(
    groups: int, dtype: torch.dtype, sizes: tuple[int, int, int]
) -> None:
    """Errors grow over thirty steps, and with λ: what single steps in the same precision err is the measure."""
    kernels, single_steps = errors(groups, sizes[2] - 7, "cuda", dtype, sizes)
    assert kernels < 2 * single_steps
    assert single_steps < (1e-3 if dtype == torch.float32 else 0.2)


def plain_errors(device: str, sizes: tuple[int, int, int]) -> float:
    """Largest relative error of two LSTMs side by side in bfloat16, against torch's in float64; each worst tensor."""
    from exadec.model.backends.triton import TritonBackend

    torch.manual_seed(0)
    batch, steps, hidden = sizes
    inputs = hidden + 3
    x, wanted = torch.randn(2, batch, steps, inputs), torch.randn(2, batch, steps, hidden)
    h, c = torch.randn(2, 2, batch, hidden)
    modules = [torch.nn.LSTM(inputs, hidden, batch_first=True) for _ in range(2)]
    results = []
    for backend, place, dtype in (
        (REFERENCE, "cpu", torch.float64),
        (TritonBackend(torch.device(device)), device, torch.float32),
    ):
        leaves = [value.to(place, dtype).requires_grad_() for value in (x, h, c)]
        weights = [[w.detach().to(place, dtype).requires_grad_() for w in module.parameters()] for module in modules]
        first = list(zip(leaves[1], leaves[2], strict=True))
        with torch.autocast(place, torch.bfloat16, enabled=backend is not REFERENCE):
            states = torch.stack(list(backend.lstms(list(leaves[0]), first, weights)))
        assert (states.dtype == torch.bfloat16) == (backend is not REFERENCE)
        gradients = torch.autograd.grad(
            (states.to(dtype) * wanted.to(place, dtype)).sum(), [*leaves, *weights[0], *weights[1]]
        )
        results.append([tensor.detach().cpu().double() for tensor in (states, *gradients)])
    return max(float((a - b).norm() / b.norm()) for a, b in zip(results[1], results[0], strict=True))


PLAIN = """
from test_triton import plain_errors
print(plain_errors("cpu", (3, 4, 6)))
"""


def test_plain_lstms_are_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(PLAIN)) < 0.02


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("sizes", [(64, 30, 256), (7, 5, 300)])
def test_plain_lstms_on_a_gpu_equal_torch(sizes: tuple[int, int, int]) -> None:
    assert plain_errors("cuda", sizes) < 0.03


# The softmax ----------------------------------------------------------------------------------------------------------

SOFTMAX = """
import torch
from test_softmax import largest_difference, losses
from exadec.model.backends.triton.softmax_kernels import TritonRows
worst = 0.0
for words in (5000, 4999):  # with rows that begin anywhere, too
    sizes = (7, 5, 6, words)
    exact = losses("cpu", torch.float64, None, sizes)
    worst = max(worst, largest_difference(losses("cpu", torch.float32, TritonRows(), sizes), exact))
print(worst)
"""


def test_softmax_is_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(SOFTMAX)) < 1e-5


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("words", [9000, 9001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_on_a_gpu_is_as_exact_as_the_plain_one(dtype: torch.dtype, words: int) -> None:
    from exadec.model.backends.triton.softmax_kernels import TritonRows

    sizes = (8, 6, 64, words)
    exact = losses("cpu", torch.float64, None, sizes)
    ours = largest_difference(losses("cuda", dtype, TritonRows(), sizes), exact)
    plain = largest_difference(losses("cuda", dtype, None, sizes), exact)
    assert ours < 2 * plain
    assert plain < (1e-5 if dtype == torch.float32 else 0.05)


# The copy mixture -----------------------------------------------------------------------------------------------------


def mixture_and_gradients(backend: Backend = REFERENCE, device: str = "cpu") -> list[torch.Tensor]:
    """log p of targets of which some can only be copied, some only generated, and some neither; and gradients."""
    torch.manual_seed(0)
    batch, steps, places, size = 3, 5, 11, 8
    ids = torch.randint(size + 4, (batch, places)).to(device)
    targets = torch.randint(size + 4, (batch, steps)).to(device)
    targets[:, 0] = size + 9
    leaves = [
        -torch.rand(batch, steps) * 5,
        torch.randn(batch, steps) * 3,
        torch.randn(batch, steps, places).softmax(2),
    ]
    leaves = [leaf.to(device).requires_grad_() for leaf in leaves]
    mixed = backend.mix_targets(*leaves, targets, ids, size)
    scale = torch.linspace(-1, 2, steps).to(device)
    found = [mixed, *torch.autograd.grad((mixed * scale).sum(), leaves)]
    return [tensor.detach().cpu() for tensor in found]


MIXTURE = """
import torch
from test_triton import mixture_and_gradients
from exadec.model.backends.triton import TritonBackend
found, exact = mixture_and_gradients(TritonBackend(torch.device("cpu"))), mixture_and_gradients()
print(max(float((a - b).abs().max()) for a, b in zip(found, exact)))
"""


def test_mixture_is_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(MIXTURE)) < 1e-5


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_mixture_on_a_gpu_equals_the_cpu() -> None:
    from exadec.model.backends.triton import TritonBackend

    ours = mixture_and_gradients(TritonBackend(torch.device("cuda")), "cuda")
    for found, exact in zip(ours, mixture_and_gradients(), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


# The lookup -----------------------------------------------------------------------------------------------------------

LOOKUP = """
import torch
from exadec.model.backends.triton.lookup_kernels import sum_rows
torch.manual_seed(0)
for count, size in ((1, 5), (16, 3), (40, 2), (77, 30), (100, 1), (130, 900)):
    ids, grad = torch.randint(size, (count,)), torch.randn(count, 6, dtype=torch.float64)
    places, order = ids.int().sort(stable=True)
    exact = torch.zeros(size, 6, dtype=torch.float64).index_add(0, ids, grad)
    torch.testing.assert_close(sum_rows(grad, places, order, size), exact)
    torch.testing.assert_close(sum_rows(grad.float(), places, order, size), exact.float())
print("equal")
"""


def test_gradient_of_the_table_is_right_when_triton_interprets_the_kernels() -> None:
    assert interpret_kernels(LOOKUP) == "equal"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("count", "size"), [(1, 5), (5000, 3), (5000, 25_000), (46_000, 700)])
def test_gradient_of_the_table_on_a_gpu_is_exact_and_repeats_itself(count: int, size: int) -> None:
    from exadec.model.backends.triton import TritonBackend

    torch.manual_seed(0)
    backend = TritonBackend(torch.device("cuda"))
    ids = torch.randint(1, size, (count,))
    ids[::3] = PAD
    wanted = torch.randn(count, 300)
    wanted[::3] = 0
    exact = torch.zeros(size, 300, dtype=torch.float64).index_add(0, ids, wanted.double())
    table = torch.randn(size, 300, device="cuda", requires_grad=True)
    found = [torch.autograd.grad((backend.lookup(table, ids.cuda()) * wanted.cuda()).sum(), table)[0] for _ in range(3)]
    torch.testing.assert_close(found[0].double().cpu(), exact, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(found[0], other) for other in found[1:])
