import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput
from suite.llama.header import HEADER_BYTES, KldHeader, parse_header

INT32 = st.integers(-(2**31), 2**31 - 1)


def test_sizes_follow_from_the_three_numbers():
    header = KldHeader(context_tokens=256, vocab_size=49152, num_chunks=1)
    assert (header.rows_per_chunk, header.row_items, header.file_bytes) == (127, 49156, 12_486_668)
    odd = KldHeader(context_tokens=9, vocab_size=7, num_chunks=2)
    assert (odd.first_row_place, odd.rows_per_chunk, odd.row_items) == (4, 4, 12)


@given(st.integers(3, 4096), st.integers(2, 300_000), st.integers(1, 4096))
def test_what_is_written_is_read(context, vocab, chunks):
    header = KldHeader(context_tokens=context, vocab_size=vocab, num_chunks=chunks)
    assert parse_header(header.to_bytes(), size_bytes=header.file_bytes, where="x") == header


@given(INT32, INT32, INT32, st.integers(0, 1 << 40))
def test_any_header_is_taken_only_with_the_one_size_that_fits(context, vocab, chunks, size):
    data = b"_logits_" + struct.pack("<3i", context, vocab, chunks)
    try:
        header = parse_header(data, size_bytes=size, where="x")
    except InvalidInput:
        return
    assert header.file_bytes == size
    assert min(header.rows_per_chunk, header.num_chunks) >= 1


@given(st.binary(max_size=HEADER_BYTES))
def test_other_bytes_are_refused(data):
    with pytest.raises(InvalidInput):
        parse_header(data, size_bytes=len(data), where="x")


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((256, 2**31 - 1, 1), "vocabulary"),
        ((256, -5, 1), "vocabulary"),
        ((256, 1, 1), "vocabulary"),
        ((-1, 100, 1), "context"),
        ((2, 100, 1), "context"),
        ((256, 100, -3), "chunk"),
        ((256, 100, 0), "chunk"),
        ((2**20, 100, 2**10), "tokens"),
    ],
)
def test_impossible_counts_are_named(numbers, words):
    data = b"_logits_" + struct.pack("<3i", *numbers)
    with pytest.raises(InvalidInput, match=words):
        parse_header(data, size_bytes=1 << 40, where="x")


def test_a_truncated_file_says_how_much_of_it_is_whole():
    header = KldHeader(context_tokens=8, vocab_size=10, num_chunks=3)
    size = header.rows_offset_bytes + 2 * header.chunk_bytes + 5
    with pytest.raises(InvalidInput, match="2 of 3 chunks are whole") as caught:
        parse_header(header.to_bytes(), size_bytes=size, where="x")
    assert "interrupted" in str(caught.value)


def test_trailing_bytes_are_refused():
    header = KldHeader(context_tokens=8, vocab_size=10, num_chunks=3)
    with pytest.raises(InvalidInput, match="7 bytes follow"):
        parse_header(header.to_bytes(), size_bytes=header.file_bytes + 7, where="x")
