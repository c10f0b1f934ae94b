"""Against the definition of RFC 6962, section 2.1, and against whoever would pass one thing off as another."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import InvalidInput, VerificationFailed
from suite.evidence.merkle import MerkleTree, leaf_hash, node_hash, path_length, root_from_path

LEAVES = st.lists(st.binary(max_size=8), min_size=1, max_size=70)


def split(count):
    """The largest power of two below `count`."""
    return 1 << ((count - 1).bit_length() - 1)


def defined_root(leaves):
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = split(len(leaves))
    return hashlib.sha256(b"\1" + defined_root(leaves[:k]) + defined_root(leaves[k:])).digest()


def defined_path(leaves, index):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return [*defined_path(leaves[:k], index), defined_root(leaves[k:])]
    return [*defined_path(leaves[k:], index - k), defined_root(leaves[:k])]


def test_the_rfcs_own_example_of_one_empty_leaf():
    assert MerkleTree([b""]).root.hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"


@given(LEAVES)
def test_root_and_paths_are_those_of_the_definition(leaves):
    tree = MerkleTree(leaves)
    assert (tree.root, len(tree)) == (defined_root(leaves), len(leaves))
    for index, leaf in enumerate(leaves):
        path = tree.path(index)
        assert list(path) == defined_path(leaves, index)
        assert len(path) == path_length(index, len(leaves))
        assert root_from_path(leaf, index, len(leaves), path) == tree.root


@given(LEAVES, st.data())
def test_another_leaf_index_size_or_sibling_gives_another_root(leaves, data):
    tree = MerkleTree(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = tree.path(index)
    assert root_from_path(leaves[index] + b"x", index, len(leaves), path) != tree.root
    other = data.draw(st.integers(0, len(leaves) - 1))
    if leaves[other] != leaves[index] and path_length(other, len(leaves)) == len(path):
        assert root_from_path(leaves[index], other, len(leaves), path) != tree.root
    if path:
        at = data.draw(st.integers(0, len(path) - 1))
        forged = [*path[:at], bytes(b ^ 1 for b in path[at]), *path[at + 1 :]]
        assert root_from_path(leaves[index], index, len(leaves), forged) != tree.root


@given(st.lists(st.binary(max_size=8), min_size=2, max_size=33))
def test_a_node_is_never_a_leaf(leaves):
    """Second preimage: the concatenation of two children hashes to their parent as a node, and not as a leaf."""
    tree = MerkleTree(leaves)
    left, right = leaf_hash(leaves[0]), leaf_hash(leaves[1])
    assert leaf_hash(left + right) != node_hash(left, right)
    shorter = MerkleTree([left + right, *leaves[2:]])
    assert shorter.root != tree.root


@given(LEAVES, st.integers(-1, 71), st.integers(0, 8))
def test_a_path_of_the_wrong_length_or_index_is_refused(leaves, index, length):
    size = len(leaves)
    if 0 <= index < size and length == path_length(index, size):
        return
    with pytest.raises(VerificationFailed, match="not a Merkle path"):
        root_from_path(b"", index, size, [bytes(32)] * length)


def test_siblings_that_are_no_hashes_are_refused():
    with pytest.raises(VerificationFailed):
        root_from_path(b"", 0, 2, [bytes(31)])


@pytest.mark.parametrize("index", [-1, 3])
def test_there_is_no_path_of_a_leaf_that_is_not_there(index):
    with pytest.raises(IndexError):
        MerkleTree([b"a", b"b", b"c"]).path(index)


def test_there_is_no_tree_over_nothing():
    with pytest.raises(InvalidInput):
        MerkleTree([])
