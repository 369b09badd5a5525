# SPDX-License-Identifier: GPL-2.0-or-later
"""Saved results come back equal, or are refused in one line."""

from __future__ import annotations

import json
import re
from typing import Any

import builders
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partywall.results import store
from partywall.results.document import DocumentError, dump
from partywall.results.document import schema as schema_of
from partywall.results.result import SCHEMA, Result

RESULT = builders.result(
    builders.signal(), builders.isolated(), builders.false_sharing(), builders.many_walls(3)
)
TEXT = dump(RESULT)

FUZZ = settings(max_examples=300, deadline=None)
Scalar = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


def load_or_refuse(text: str) -> Result | None:
    """The result; None if it was refused, and as promised."""
    try:
        return store.parse(text)
    except DocumentError as error:
        message = str(error)
        assert message
        assert message.isprintable()
        assert len(message) < 400
        return None


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of everything in a JSON document but the document itself."""
    found = [path] if path else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            found += places(inner, (*path, key))
    return found


PLACES = places(json.loads(TEXT))


def test_a_result_comes_back_equal() -> None:
    assert store.parse(TEXT) == RESULT
    assert dump(store.parse(TEXT)) == TEXT


def test_an_empty_result_comes_back_equal() -> None:
    empty = builders.result()
    assert store.parse(dump(empty)) == empty


def test_the_text_is_stable_and_ends_in_a_newline() -> None:
    assert dump(RESULT.model_copy(deep=True)) == TEXT
    assert TEXT.endswith("}\n")
    assert TEXT.isascii()
    assert list(json.loads(TEXT)) == [
        *("schema", "created", "measured_with", "lacks", "kernel", "environment"),
        *("workloads", "failed", "sites"),
    ]


@FUZZ
@given(st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_any_name_and_rate_come_back(name: str, rate: float) -> None:
    workload = builders.workload("w", [builders.named_wall(name)], threshold=rate)
    result = builders.result(workload)
    assert store.parse(dump(result)) == result


@pytest.mark.parametrize("rate", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_saved(rate: float) -> None:
    # A copy is not validated, so it can hold what a result can't be made of.
    broken = builders.workload("w", []).model_copy(update={"between": rate})
    result = builders.result().model_copy(update={"workloads": [broken]})
    with pytest.raises(DocumentError, match="cannot be saved"):
        dump(result)


@pytest.mark.parametrize("rate", ["NaN", "Infinity", "1e999", '"4.0"', "true", "null"])
def test_what_is_no_number_is_not_read(rate: str) -> None:
    text = TEXT.replace('"accesses": 2430.4', f'"accesses": {rate}')
    assert text != TEXT
    with pytest.raises(DocumentError):
        store.parse(text)


def test_no_rate_is_read_that_has_no_end() -> None:
    # What is read could not be written again; that takes as long as reading it, so it isn't tried.
    rates = list(re.finditer(r"(?<=: )-?[0-9]+\.[0-9]+(?=,?\n)", TEXT))
    assert len(rates) > 100
    for rate in rates:
        assert load_or_refuse(TEXT[: rate.start()] + "1e999" + TEXT[rate.end() :]) is None


def test_another_schema_is_named() -> None:
    text = TEXT.replace(SCHEMA, "partywall.result/99").replace('"created"', '"made"')
    with pytest.raises(DocumentError) as caught:
        store.parse(text)
    assert "partywall.result/99" in str(caught.value)
    assert SCHEMA in str(caught.value)


def test_a_result_without_schema_is_refused() -> None:
    document = json.loads(TEXT)
    del document["schema"]
    with pytest.raises(DocumentError, match="no schema"):
        store.parse(json.dumps(document))


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(DocumentError, match=r"kernel\.colour"):
        store.parse(TEXT.replace('"release"', '"colour": 1, "release"'))


@pytest.mark.parametrize(
    "text",
    ["", " ", "null", "[]", "{}", "7", '"x"', "\ufeff" + TEXT, "[" * 100_000, TEXT + "x", "\udc80"],
)
def test_what_is_no_result_is_refused(text: str) -> None:
    assert load_or_refuse(text) is None


@FUZZ
@given(st.integers(min_value=0, max_value=len(TEXT)))
def test_a_text_cut_short_is_refused_or_whole(length: int) -> None:
    loaded = load_or_refuse(TEXT[:length])
    # The last newline is the only thing that a whole result can lack.
    assert loaded == RESULT if length >= len(TEXT) - 1 else loaded is None


@FUZZ
@given(
    start=st.integers(min_value=0, max_value=len(TEXT)),
    length=st.integers(min_value=0, max_value=40),
    instead=st.text(max_size=8) | st.text('0123456789.eE+-"{}[],:\\ ', max_size=4),
)
def test_a_damaged_text_is_refused_or_a_result(start: int, length: int, instead: str) -> None:
    loaded = load_or_refuse(TEXT[:start] + instead + TEXT[start + length :])
    if loaded is not None:
        assert store.parse(dump(loaded)) == loaded


@FUZZ
@given(st.sampled_from(PLACES), Scalar | st.lists(Scalar) | st.dictionaries(st.text(), Scalar))
def test_a_wrong_value_is_refused_or_a_result(path: tuple[str | int, ...], value: Any) -> None:
    document = json.loads(TEXT)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    loaded = load_or_refuse(json.dumps(document))
    if loaded is not None:
        assert store.parse(dump(loaded)) == loaded


def test_the_json_schema_describes_what_is_saved() -> None:
    schema = schema_of(Result)
    assert json.loads(json.dumps(schema)) == schema
    assert SCHEMA in schema["properties"]["schema"]["const"]

    def check(value: Any, rule: dict[str, Any]) -> None:
        if "anyOf" in rule:
            rule, nothing = rule["anyOf"]
            assert nothing == {"type": "null"}
            if value is None:
                return
        if "$ref" in rule:
            rule = schema["$defs"][rule["$ref"].rpartition("/")[2]]
        if isinstance(value, dict) and "properties" not in rule:
            for inner in value.values():
                check(inner, rule["additionalProperties"])
        elif isinstance(value, dict):
            assert set(value) == set(rule["properties"]) == set(rule["required"])
            for key, inner in value.items():
                check(inner, rule["properties"][key])
        elif isinstance(value, list):
            for inner in value:
                check(inner, rule["items"])

    check(json.loads(TEXT), schema)


def as_version(number: int) -> dict[str, Any]:
    """RESULT as an older version wrote it: each line holds its places in the code."""
    data = RESULT.model_dump(by_alias=True)
    data["schema"] = f"partywall.result/{number}"
    del data["measured_with"], data["lacks"]
    if number == 1:
        for workload in data["workloads"]:
            del workload["locks"], workload["waits"], workload["instructions"]["spinning"]
    return data


@pytest.mark.parametrize("number", [1, 2])
def test_a_result_of_an_older_version_is_brought_up_to_date(number: int) -> None:
    read = store.parse(json.dumps(as_version(number)))
    assert read.workloads == RESULT.workloads
    assert (read.schema_, read.measured_with) == (SCHEMA, f"partywall.result/{number}")
    assert ("locks" in read.lacks) == (number == 1)
    printed = dump(read)
    assert json.loads(printed)["schema"] == SCHEMA
    # What is printed now is a document of this version, and says the same.
    assert store.parse(printed) == read


def test_an_older_version_has_no_numbers_for_places() -> None:
    with pytest.raises(DocumentError, match=r"code\[0\]"):
        store.parse(TEXT.replace(SCHEMA, "partywall.result/2"))


def test_each_place_in_the_code_is_written_once() -> None:
    again = builders.result(*[builders.signal()] * 3)
    data = json.loads(dump(again))
    assert len(data["sites"]) == len(json.loads(dump(builders.result(builders.signal())))["sites"])
    rows = [row for line in data["workloads"][2]["walls"] for row in line["code"]]
    assert all(set(row) == {"site", "reads", "writes", "atomics"} for row in rows)
    assert store.parse(json.dumps(data)) == again


@pytest.mark.parametrize("number", [-1, 10**6, "0", None, 0.0, True, [0]])
def test_a_place_that_is_not_there_is_refused(number: Any) -> None:
    data = json.loads(TEXT)
    data["workloads"][0]["walls"][0]["code"][0]["site"] = number
    with pytest.raises(DocumentError, match="no place"):
        store.parse(json.dumps(data))


def test_a_place_told_twice_is_refused() -> None:
    data = json.loads(TEXT)
    data["workloads"][0]["walls"][0]["code"][0]["function"] = "other"
    with pytest.raises(DocumentError, match="twice"):
        store.parse(json.dumps(data))


@pytest.mark.parametrize("sites", [None, {}, [None] * 99, "x"])
def test_places_that_are_none_are_refused(sites: Any) -> None:
    data = {**json.loads(TEXT), "sites": sites}
    with pytest.raises(DocumentError):
        store.parse(json.dumps(data))


def test_models_that_were_given_the_same_fields_share_what_says_so() -> None:
    one, other = (builders.field("count", offset) for offset in (8, 16))
    assert one.model_fields_set is other.model_fields_set
    changed = one.model_copy(update={"share": 1.0})
    assert changed.model_fields_set == one.model_fields_set
    assert changed.model_fields_set is not one.model_fields_set


@pytest.mark.parametrize(
    "result", [RESULT, builders.result(), builders.result(builders.isolated())]
)
def test_what_is_written_in_pieces_is_what_json_writes_at_once(result: Result) -> None:
    assert dump(result) == json.dumps(result.written(), indent=1, allow_nan=False) + "\n"
