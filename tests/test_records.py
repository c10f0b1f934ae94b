from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from suite.errors import InvalidInput
from suite.records import parse_strictly


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    schema_version: Literal[1] = 1
    low: int
    high: int

    @model_validator(mode="after")
    def _ordered(self) -> Record:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def test_a_record_is_read() -> None:
    assert parse_strictly(Record, b'{"low": 1, "high": 2}', where="file", newest=1) == Record(low=1, high=2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"low": 1', "not JSON"),
        (b'{"low": 1, "low": 2, "high": 3}', "stands twice"),
        (b"[]", "no record: Input should be an object"),
        (b'{"schema_version": 2, "else": 1}', r"schema version 2 is newer than this program reads \(1\)"),
        (b'{"schema_version": true, "low": 1, "high": 2}', "schema_version is no whole number"),
        (b'{"schema_version": 1.0, "low": 1, "high": 2}', "schema_version is no whole number"),
        (b'{"low": 1.0, "high": 2}', "no record: low: "),
        (b'{"low": 1, "high": 2, "more": 3}', "no record: more: Extra inputs"),
        (b'{"low": 3, "high": 2}', "^file: no record: low is above high$"),
    ],
)
def test_what_is_no_such_record_is_refused_with_its_key(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_strictly(Record, data, where="file", newest=1, what="no record: ")
