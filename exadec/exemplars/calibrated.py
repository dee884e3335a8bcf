"""Training exemplars that are only as similar as those of new text will be.

In: the nearest of the training and of the development set. Out: for each training instance neighbours that are about as
similar as those of a development instance.

Where training instances have near duplicates among themselves, such as several texts for one source, their exemplars
are better than any that new text will have. A model that learns from them trusts exemplars too much.
"""

from dataclasses import replace

import numpy as np

from exadec.exemplars.policies.pool import Choice, Engine, Pool


def calibrate(choice: Choice, held_out: np.ndarray, pool: Pool, engine: Engine) -> Choice:
    """Where training exemplars are more similar than those of the development set (M,), go down to closer matches."""
    wanted = match_quantiles(choice.similarity, held_out, pool.random("calibrated"))  # (N,)
    above = np.flatnonzero(choice.similarity > wanted)
    if not len(above):
        return choice
    side = replace(pool.train.take(above), ceilings=wanted[above])
    found = pool.search(side, engine)  # the nearest of those that are not above
    nearest = choice.neighbours[above], choice.neighbour_similarities[above]
    neighbours, similarities = choice.neighbours.copy(), choice.neighbour_similarities.copy()
    neighbours[above], similarities[above] = _descend(
        *nearest, found.ids, found.similarities(side.rows.squares), wanted[above]
    )
    return Choice(neighbours[:, 0], similarities[:, 0], neighbours, similarities)


def _descend(
    ids: np.ndarray, similarities: np.ndarray, lower: np.ndarray, lower_similarities: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(N, k) each: from two lists of neighbours, the one whose similarity is closest to `wanted`, and those below it.

    The second list has the nearest that are not above `wanted`.
    """
    k = ids.shape[1]
    similarities = np.where(similarities > wanted[:, None], similarities, -1)  # the others are in the second list
    lower_similarities = np.where(lower >= 0, lower_similarities, -1)
    every, values = np.hstack([ids, lower]), np.hstack([similarities, lower_similarities])
    order = np.argsort(-values, axis=1, kind="stable")
    every, values = np.take_along_axis(every, order, 1), np.take_along_axis(values, order, 1)
    distances = np.where(values >= 0, np.abs(values - wanted[:, None]), np.inf)
    columns = np.minimum(distances.argmin(axis=1)[:, None] + np.arange(k), 2 * k - 1)
    every, values = np.take_along_axis(every, columns, 1), np.take_along_axis(values, columns, 1)
    # A column may come again at the end, after the last of a list.
    real = (values >= 0) & (np.diff(columns, axis=1, prepend=-1) > 0)
    return np.where(real, every, -1), np.where(real, values, 0).astype(np.float32)


def match_quantiles(values: np.ndarray, wanted: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N,) float64: the value at the same rank among `wanted` (M,), in a random order where values are equal."""
    order = np.lexsort((random.random(len(values)), values))
    matched = np.empty(len(values))
    matched[order] = np.quantile(wanted, (np.arange(len(values)) + 0.5) / len(values), method="nearest")
    return matched
