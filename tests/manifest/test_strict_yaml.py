from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.manifest import strict_yaml
from suite.manifest.load import dump_yaml
from suite.manifest.problems import InvalidManifest
from suite.manifest.strict_yaml import MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES, parse_file, parse_text

FILE = Path("m.yaml")

HOSTILE = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", 3, "stands twice (first on line 1)"),
    "duplicate key, quoted once": ('a: 1\n"a": 3\n', 2, "stands twice"),
    "duplicate nested key": ("a:\n  b: 1\n  b: 2\n", 3, "stands twice"),
    "anchor": ("a: &x 1\n", 1, "anchors and aliases"),
    "anchor on a mapping": ("a: &x {b: 1}\n", 1, "anchors and aliases"),
    "anchor on a key": ("&x a: 1\n", 1, "plain text"),
    "alias": ("a: 1\nb: *x\n", 2, "aliases"),
    "alias as key": ("*x : 1\n", 1, "plain text"),
    "billion laughs": ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", 1, "anchors and aliases"),
    "merge key": ("a: {b: 1}\nc:\n  <<: {b: 2}\n", 3, "merge keys"),
    "python tag": ("a: !!python/object/apply:os.system [ls]\n", 1, "tags are not allowed"),
    "core tag": ('a: !!int "3"\n', 1, "tags are not allowed"),
    "local tag": ("a: !secret x\n", 1, "tags are not allowed"),
    "tag on a key": ("!!str a: 1\n", 1, "plain text"),
    "non-specific tag": ("a: ! x\n", 1, "tags are not allowed"),
    "tag directive": ("%TAG ! tag:x,2000:\n---\na: 1\n", 1, "directives"),
    "version directive": ("%YAML 1.1\n---\na: 1\n", 1, "directives"),
    "two documents": ("a: 1\n---\nb: 2\n", 2, "second document"),
    "empty file": ("", 1, "empty"),
    "comment only": ("# nothing\n", 1, "empty"),
    "list": ("- a\n- b\n", 1, "must be a mapping"),
    "scalar": ("hello\n", 1, "must be a mapping"),
    "empty value": ("a: 1\nb:\nc: 2\n", 2, "empty value"),
    "key that is a list": ("? [a, b]\n: 1\n", 1, "plain text"),
    "long integer": ("a: " + "9" * 40 + "\n", 1, "an integer of more than"),
    "escape sequence": ('a: "\\e[31mred"\n', 1, "control or invisible"),
    "bidirectional override": ('a: "x\\u202Ey"\n', 1, "control or invisible"),
    "zero width in a key": ('"a\\u200B": 1\n', 1, "control or invisible"),
    "raw control character": ("a: \x07\n", 1, "not YAML"),
    "unclosed": ("a: [1, 2\n", 2, "not YAML"),
    "tab indentation": ("a:\n\tb: 1\n", 2, "not YAML"),
}


@pytest.mark.parametrize(("text", "line", "message"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_hostile_text_is_refused_with_its_line(
    monkeypatch: pytest.MonkeyPatch, loader: str, text: str, line: int, message: str
) -> None:
    monkeypatch.setattr(strict_yaml, "_LOADER", getattr(strict_yaml.yaml, loader))
    with pytest.raises(InvalidManifest, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        parse_text(text, FILE)
    [problem] = caught.value.problems
    assert problem.place.file == FILE
    # Where a flow that is never closed ends is a matter of the parser.
    assert problem.place.line == line or (text == HOSTILE["unclosed"][0] and problem.place.line in (1, 2, 3))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("0", 0),
        ("-7", -7),
        ("2048", 2048),
        *((word, word) for word in ("no", "on", "yes", "off", "y", "True", "FALSE", "~", "Null", "NULL")),
        *(
            (word, word)
            for word in ("12:30", "1:2:3", "0o17", "017", "0x1F", "1_000", "+5", "1e3", "1.5", ".inf", ".nan")
        ),
        *((word, word) for word in ("2026-11-29", "2026-11-29T10:00:00Z", "0.31.0", "12.0", "=")),
        ('"1"', "1"),
        ("'true'", "true"),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, value: object) -> None:
    parsed = parse_text(f"a: {text}\n", FILE).value["a"]
    assert parsed == value
    assert type(parsed) is type(value)


def test_block_scalar_is_text_with_newlines() -> None:
    assert parse_text("a: |\n  1\n  true\n", FILE).value == {"a": "1\ntrue\n"}


def test_places_of_keys_and_items() -> None:
    document = parse_text("a: 1\nb:\n  c: 2\n  d:\n    - x\n    - e: 3\n", FILE)
    lines = {path: place.line for path, place in document.places.items()}
    assert lines == {(): 1, ("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "d"): 4, ("b", "d", 0): 5, ("b", "d", 1): 6} | {
        ("b", "d", 1, "e"): 6
    }


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_depth_is_limited_long_before_the_stack(opening: str) -> None:
    with pytest.raises(InvalidManifest, match=r"nested deeper|nesting depth"):
        parse_text("a: " + opening * 20_000, FILE)
    assert parse_text("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1), FILE).value["a"] is not None


def test_number_of_values_is_limited() -> None:
    assert len(parse_text("a: [" + "1," * (MAX_NODES - 2) + "]", FILE).value["a"]) == MAX_NODES - 2
    with pytest.raises(InvalidManifest, match="more than"):
        parse_text("a: [" + "1," * MAX_NODES + "]", FILE)


def test_oversized_file(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(b"a: 1\n" + b"#" * (MAX_FILE_BYTES - 5))
    assert parse_file(path).value == {"a": 1}
    path.write_bytes(b"a: 1\n" + b"#" * (MAX_FILE_BYTES - 4))
    with pytest.raises(InvalidManifest, match="larger than 256 KiB"):
        parse_file(path)


def test_endless_file_is_not_read_whole() -> None:
    with pytest.raises(InvalidManifest, match="larger than"):
        parse_file(Path("/dev/zero"))


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InvalidManifest, match="UTF-8") as caught:
        parse_file(path)
    assert caught.value.problems[0].place.line == 2


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest, match=r"none\.yaml: cannot be read: No such file or directory$"):
        parse_file(tmp_path / "none.yaml")
    (tmp_path / "cpu-kv-fp8.yaml").write_text("a: 1\n")
    with pytest.raises(InvalidManifest, match=r"; the nearest there is cpu-kv-fp8\.yaml$"):
        parse_file(tmp_path / "cpu-kv-fp9.yaml")
    with pytest.raises(InvalidManifest, match=r"Is a directory$"):
        parse_file(tmp_path)


@given(st.text(max_size=200))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        value = parse_text(text, FILE).value
    except InvalidManifest as error:
        assert error.problems[0].place.line >= 1  # noqa: PT017
    else:
        assert isinstance(value, dict)


WORDS = st.sampled_from(
    ["no", "on", "yes", "12:30", "0o17", "1_000", "null", "true", "1.5", "2026-11-29", "~", "<<x", "=", ""]
)
TEXTS = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=30)
LEAVES = st.none() | st.booleans() | st.integers(-(10**17), 10**17) | TEXTS | WORDS
KEYS = (TEXTS | WORDS).filter(lambda key: key != "<<" and len(key) < 100)
TREES = st.dictionaries(
    KEYS,
    st.recursive(LEAVES, lambda x: st.lists(x, max_size=4) | st.dictionaries(KEYS, x, max_size=4), max_leaves=12),
    min_size=1,
    max_size=5,
)


@given(TREES)
def test_what_is_dumped_reads_back_unchanged(tree: dict[str, object]) -> None:
    assert parse_text(dump_yaml(tree), FILE).value == tree
