"""A swap study of four texts, written by hand."""

from exadec.views.swap_study import Case, Study, Texts, measure_study

SOURCES = [
    "A flood cut off Lowmoor.",
    "Ada Brack refused deals.",
    "A fire hurt two in Lowmoor.",
    "Rain fell on Monday.",
]
REFERENCES = ["Flood cuts off Lowmoor", "Brack refuses deals", "Fire hurts two", "Rain falls"]
EXEMPLARS = ["Snow: Highmoor shut", "Ice: roads closed", "Is the strike over?", "Mayor resigns"]
OWN_EXEMPLARS = ["Storm hits town", None, "Blast hurts four", "Snow falls"]

CASES = [
    Case(f"case-{number}", source, (reference,), "Gazette", exemplar, "Post", drawn_for)
    for number, (source, reference, exemplar, drawn_for) in enumerate(
        zip(SOURCES, REFERENCES, EXEMPLARS, ["colon", "colon", "question mark", "none of these traits"], strict=True)
    )
]
OWN = ["Flood cuts off Lowmoor", "Brack refuses deals", "Fire hurts two", "Rain: it falls"]
PLAIN_TEXTS = Texts(
    0.0, OWN, OWN_EXEMPLARS, ["Flood: Lowmoor cut off", "Brack refuses", "Is the fire over?", "Rain falls"]
)
GUIDED_TEXTS = Texts(
    0.5, OWN, OWN_EXEMPLARS, ["Flood: Lowmoor shut", "Ice: roads refused", "Is the strike over?", "Mayor falls"]
)

SETTINGS = {
    "run": "toy",
    "model": "adadec",
    "seed": 3,
    "exemplars": "training targets of another group",
    "drawn_for": {"colon": 2, "question mark": 1, "none of these traits": 1},
    "search": {"beam_size": 2},
}


def make_study() -> Study:
    return measure_study(SETTINGS, CASES, [PLAIN_TEXTS, GUIDED_TEXTS])
