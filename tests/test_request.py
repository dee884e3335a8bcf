"""Requests in JSON."""

import json
from typing import Any

import pytest

from exadec.errors import InputError
from exadec.request import Request, parse_request


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"source": " a  b "}, Request("a b")),
        ({"source": "a", "exemplar": "b", "group": "c", "uid": 4, "target": "d"}, Request("a", "b", "c", "4")),
        ({"table": {"name": "The Oak", "seats": 4}}, Request("name : The Oak | seats : 4")),
        ({"source": "a", "exemplar": None, "group": None}, Request("a")),
    ],
)
def test_fields_are_read(row: dict[str, Any], expected: Request) -> None:
    assert parse_request(json.dumps(row), "here:1") == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "here:1: not JSON"),
        ("[]", "here:1: expected a JSON object, but found a list."),
        ("{}", "here:1: the record has no 'source'."),
        ('{"source": ""}', "here:1: the record's 'source' is empty."),
        ('{"source": 5}', "here:1: 'source' must be text, but is a int."),
        ('{"source": "a", "exemplar": ["b"]}', "here:1: 'exemplar' must be text, but is a list."),
        ('{"source": "a", "group": {}}', "here:1: 'group' must be text or a number, but is a dict."),
        ('{"table": []}', "here:1: 'table' is empty."),
    ],
)
def test_mistakes_are_named(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_request(line, "here:1")
    assert str(caught.value).startswith(message)
