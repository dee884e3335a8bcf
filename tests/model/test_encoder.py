"""The encoder against torch's bidirectional LSTM, layer by layer."""

import torch

from exadec.model.encoder import BiLstmEncoder, sequence_dropout


def test_one_layer_encoder_equals_packed_bidirectional_lstm() -> None:
    torch.manual_seed(0)
    encoder = BiLstmEncoder(5, 4, 1, 0.0)
    oracle = torch.nn.LSTM(5, 4, bidirectional=True, batch_first=True)
    for ours, suffix in ((encoder.forwards, ""), (encoder.backwards, "_reverse")):
        for name, parameter in ours.layers[0].named_parameters():
            getattr(oracle, name + suffix).data.copy_(parameter.data)
    x, lengths = torch.randn(3, 6, 5), torch.tensor([6, 2, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, (last, _) = oracle(packed)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
    positions, state = encoder(x, lengths)
    inside = (torch.arange(6) < lengths[:, None])[:, :, None]
    torch.testing.assert_close(positions * inside, expected)
    torch.testing.assert_close(state, torch.cat([last[0], last[1]], dim=1))


def test_residual_connections_join_every_layer_of_equal_size() -> None:
    torch.manual_seed(0)
    encoder = BiLstmEncoder(4, 4, 3, 0.0)
    x = torch.randn(2, 5, 4)
    expected = x
    for layer in encoder.forwards.layers:
        own = layer(expected)[0]
        expected = expected + own
    positions, last = encoder(x, torch.full((2,), 5))
    torch.testing.assert_close(positions[..., :4], expected)
    torch.testing.assert_close(last[:, :4], own[:, -1])  # without what was added: the decoder starts from this


def test_sequence_dropout_has_one_mask_a_sequence() -> None:
    torch.manual_seed(0)
    mask = sequence_dropout(torch.ones(3, 7, 100), 0.5)
    assert mask.shape == (3, 1, 100)
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(mask[0], mask[1])


def test_encoder_drops_out_in_training_only() -> None:
    torch.manual_seed(0)
    encoder, x, lengths = BiLstmEncoder(4, 4, 2, 0.5), torch.randn(2, 5, 4), torch.tensor([5, 3])
    assert not torch.equal(encoder.train()(x, lengths)[0], encoder(x, lengths)[0])
    assert torch.equal(encoder.eval()(x, lengths)[0], encoder(x, lengths)[0])
