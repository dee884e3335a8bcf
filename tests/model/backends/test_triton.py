"""The Triton backend's kernels against the reference: interpreted on a CPU, and on a GPU."""

import pytest
import torch

from exadec.corpus.vocabulary import PAD
from support.backend_runs import (
    GROUPS,
    attention_and_gradients,
    largest_error,
    losses,
    lstm_errors,
    mixture_and_gradients,
    plain_errors,
)
from support.interpreter import interpret_kernels

LSTM = """
import torch
from support.backend_runs import GROUPS, lstm_errors
print(max(lstm_errors(groups, 5, "cpu", torch.float32, (3, 4, 6))[0] for groups in GROUPS))
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
    kernels, single_steps = lstm_errors(groups, sizes[2] - 7, "cuda", dtype, sizes)
    assert kernels < 2 * single_steps
    assert single_steps < (1e-3 if dtype == torch.float32 else 0.2)


PLAIN = """
from support.backend_runs import plain_errors
print(plain_errors("cpu", (3, 4, 6)))
"""


def test_plain_lstms_are_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(PLAIN)) < 0.02


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("sizes", [(64, 30, 256), (7, 5, 300)])
def test_plain_lstms_on_a_gpu_equal_torch(sizes: tuple[int, int, int]) -> None:
    assert plain_errors("cuda", sizes) < 0.03


SOFTMAX = """
import torch
from support.backend_runs import largest_error, losses
from exadec.model.backends.triton.softmax_kernels import TritonRows
worst = 0.0
for words in (5000, 4999):  # with rows that begin anywhere, too
    sizes = (7, 5, 6, words)
    exact = losses("cpu", torch.float64, None, sizes)
    worst = max(worst, largest_error(losses("cpu", torch.float32, TritonRows(), sizes), exact))
print(worst)
"""


@pytest.mark.slow
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
    ours = largest_error(losses("cuda", dtype, TritonRows(), sizes), exact)
    plain = largest_error(losses("cuda", dtype, None, sizes), exact)
    assert ours < 2 * plain
    assert plain < (1e-5 if dtype == torch.float32 else 0.05)


MIXTURE = """
import torch
from support.backend_runs import largest_error, mixture_and_gradients
from exadec.model.backends.triton import TritonBackend
backend = TritonBackend(torch.device("cpu"))
pairs = [(mixture_and_gradients(backend, cased=c), mixture_and_gradients(cased=c)) for c in (False, True)]
print(max(largest_error(found, exact) for found, exact in pairs))
"""


def test_mixture_is_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(MIXTURE)) < 1e-5


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("cased", [False, True])
def test_mixture_on_a_gpu_equals_the_cpu(cased: bool) -> None:
    from exadec.model.backends.triton import TritonBackend

    ours = mixture_and_gradients(TritonBackend(torch.device("cuda")), "cuda", cased)
    for found, exact in zip(ours, mixture_and_gradients(cased=cased), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


ATTENTION = """
import torch
from support.backend_runs import attention_and_gradients, largest_error
from exadec.model.backends.triton import TritonBackend
backend = TritonBackend(torch.device("cpu"))
cases = [{"used": used} for used in ("copied", "averaged", "both")]
print(max(largest_error(attention_and_gradients(backend, **c), attention_and_gradients(**c)) for c in cases))
"""


def test_attention_is_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(ATTENTION)) < 1e-6


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("used", ["copied", "averaged", "both"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_on_a_gpu_equals_the_cpu(dtype: torch.dtype, used: str) -> None:
    from exadec.model.backends.triton import TritonBackend

    ours = attention_and_gradients(TritonBackend(torch.device("cuda")), "cuda", dtype, used)
    exact = attention_and_gradients(used=used)
    assert largest_error(ours, exact) < (1e-5 if dtype == torch.float32 else 0.02)


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
