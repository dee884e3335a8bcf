"""Adam by hand, and the learning rate's steps."""

from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.config import Config
from exadec.corpus.prepare import prepare
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.training.optimizer import build_optimizer, learning_rate
from exadec.training.trainer import build_model
from support.toys import variant_config


def test_learning_rate_is_annealed_in_steps() -> None:
    config = Config.from_dict({"folder": "x"}).training
    rates = [learning_rate(config, epochs) for epochs in (0, 3.999, 4, 7.9, 8)]
    assert rates == pytest.approx([0.001, 0.001, 0.0002, 0.0002, 0.00004])


def test_optimizer_is_decoupled_adam_over_all_parameters(toy: Path) -> None:
    """One step by hand: p ← p - η·0.01·p - η·m̂/(√v̂ + ε), for every parameter, the clipped gradient inside."""
    config = variant_config(toy, "adadec", epochs=1)
    corpus = prepare(config)
    model = build_model(config, corpus)
    optimizer = build_optimizer(model, config.training)
    batch = Loader(corpus, retrieve(corpus), "train", copy_exemplar=False).batch(np.arange(8))
    model(batch).sum().mul(-100).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.training.clip_norm)
    assert norm > config.training.clip_norm
    before = {name: (p.detach().clone(), p.grad.clone()) for name, p in model.named_parameters()}
    assert sum(grad.square().sum() for _, grad in before.values()).sqrt().item() == pytest.approx(1.0, rel=1e-3)
    optimizer.step()
    rate = config.training.learning_rate
    for name, parameter in model.named_parameters():
        old, gradient = before[name]
        # After one step the bias-corrected moments are the gradient and its square.
        expected = old * (1 - rate * 0.01) - rate * gradient / (gradient.abs() + 1e-8)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-4, atol=1e-6, msg=name)
