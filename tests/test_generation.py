"""A generation as JSON, and back."""

import json

import numpy as np
import pytest

from exadec.generation import Explanation, Generation, explanation_from_json


def make(coefficients: np.ndarray | None, explanation: Explanation, exemplar: str | None = "how") -> Generation:
    return Generation(
        text="text",
        score=-0.1,
        exemplar=exemplar,
        exemplars=[] if exemplar is None else [exemplar, "other"],
        similarity=0.25,
        pieces=["text", "</s>"],
        memory=["source"],
        coefficients=coefficients,
        alternatives=[("other", -0.2)],
        truncated=1,
        exemplar_truncated=2,
        exemplar_id=None if exemplar is None else "train-3",
        explain=lambda: explanation,
    )


@pytest.mark.parametrize("shape", [None, (3,), (4, 3)])
@pytest.mark.parametrize("exemplar", ["how", None])
def test_nothing_is_lost_on_the_way(shape: tuple[int, ...] | None, exemplar: str | None) -> None:
    random = np.random.default_rng(0)
    lam = None if shape is None else random.normal(size=shape).astype(np.float32)
    explanation = Explanation(random.random((2, 1), np.float32), random.random(2, np.float32))
    one = make(lam, explanation, exemplar)
    shown = json.loads(json.dumps(one.to_json(coefficients=True, pieces=True, explain=True)))
    again = Generation.from_json(shown, lambda: explanation_from_json(shown))
    for name in set(vars(one)) - {"_explain", "_explanation", "coefficients"}:
        assert getattr(again, name) == getattr(one, name), name
    np.testing.assert_array_equal(again.coefficients, lam)
    np.testing.assert_array_equal(again.attention, explanation.attention)
    np.testing.assert_array_equal(again.copy_gate, explanation.copy_gate)


def test_the_rest_comes_on_request() -> None:
    def fail() -> Explanation:
        raise AssertionError("nobody asked for it")

    one = make(np.ones(3, np.float32), Explanation(None, None))
    object.__setattr__(one, "_explain", fail)
    plain = one.to_json()
    assert plain["exemplar"] == {"id": "train-3", "text": "how", "similarity": 0.25}
    assert set(one.to_json(coefficients=True)) - set(plain) == {"coefficients"}
    assert set(one.to_json(pieces=True)) - set(plain) == {"pieces", "memory"}
    explained = make(None, Explanation(None, None)).to_json(explain=True)
    assert set(explained) - set(plain) == {"pieces", "memory", "attention", "copy_gate"}
    assert explained["attention"] is None
