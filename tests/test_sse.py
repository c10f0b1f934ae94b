import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.sse import events

TEXTS = st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_with_every_line_end(end: str) -> None:
    text = f"\ufeffevent: a{end}data: 1{end}data:2{end}{end}: c{end}id: 7{end}{end}data: x{end}{end}data: cut"
    found = [(e.name, e.data, e.whole) for e in events([text.encode()])]
    assert found == [("a", "1\n2", True), ("message", "x", True), ("message", "cut", False)]


def test_of_what_stands_after_the_last_line_end_only_data_is_of_use() -> None:
    for tail in (b"data", b"event: other", b": a comment", b"\xef\xbb"):
        assert [(e.name, e.data, e.whole) for e in events([b"data: x\n", tail])] == [("message", "x", False)]


@given(st.lists(TEXTS), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.integers(min_value=1, max_value=9))
def test_pieces_may_be_cut_anywhere(texts: list[str], end: bytes, size: int) -> None:
    stream = b"".join(b"data: " + text.encode() + end * 2 for text in texts)
    found = list(events(stream[i : i + size] for i in range(0, len(stream), size)))
    assert [event.data for event in found] == texts
    assert all(event.whole for event in found)


@given(st.lists(st.binary(max_size=20)))
def test_any_bytes_give_the_same_events_whole_or_in_pieces(pieces: list[bytes]) -> None:
    assert list(events(pieces)) == list(events([b"".join(pieces)]))


def test_an_event_is_given_as_soon_as_it_ends() -> None:
    def stream():
        yield b"data: one\n\nda"
        raise AssertionError("asked for more than the first event needs")

    assert next(events(stream())).data == "one"
