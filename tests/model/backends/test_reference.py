"""The reference backend: what the others are compared with."""

import pytest
import torch

from exadec.model.backends.reference import reverse_padded
from exadec.model.encoder import BiLstmEncoder


def test_reverse_padded() -> None:
    x = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])[:, :, None]
    expected = torch.tensor([[3, 2, 1, 0, 0], [8, 7, 6, 5, 4]])[:, :, None]
    assert torch.equal(reverse_padded(x, torch.tensor([3, 5])), expected)


CUDA = torch.cuda.is_available()


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]),
    ],
)
def test_lstms_of_torch_stay_in_float32_under_autocast(device: str) -> None:
    """Autocast would run cuDNN's LSTM in float16, although it was asked for bfloat16: large values become infinite."""
    torch.manual_seed(0)
    encoder, lengths = BiLstmEncoder(8, 8, 2, 0.0).to(device), torch.tensor([5, 3]).to(device)
    x = torch.randn(2, 5, 8, device=device) * 1e6  # float16 ends at 65,504
    with torch.autocast(device, torch.bfloat16):
        positions, last = encoder(x, lengths)
        plain = torch.nn.LSTM(8, 8, batch_first=True).to(device)(x)[0]
    assert positions.dtype == last.dtype == torch.float32
    assert positions.isfinite().all()
    if device == "cuda":
        assert plain.dtype == torch.float16, "autocast has changed its mind: the reference may not need its detour"
