"""What differs between two stacks' components: the answer to "is the image the same?" in a comparison of factors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from suite.sbom.interface import FILE_KINDS, KINDS, MOUNTED_FILE, PACKAGE_KINDS, Component


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One component that both sides have, but not the same."""

    before: Component
    after: Component

    @property
    def what(self) -> str:
        """`version`, or `content` when the versions agree."""
        return "content" if self.before.version == self.after.version else "version"


@dataclass(frozen=True, kw_only=True, slots=True)
class SbomDiff:
    """Sorted differences from one side to the other."""

    added: tuple[Component, ...]
    removed: tuple[Component, ...]
    changed: tuple[Change, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed or self.changed)

    def count(self, kinds: Collection[str] = KINDS) -> int:
        """How many components of `kinds` differ in any way; a changed one counts once."""
        differing = (*self.added, *self.removed, *(change.after for change in self.changed))
        return sum(component.kind in kinds for component in differing)

    def sentence(self) -> str:
        """One line for people: `3 packages differ (1 added, 1 removed, 1 changed) and 2 files differ`."""
        if self.is_empty:
            return "no component differs"
        parts = []
        groups = (
            ("package", PACKAGE_KINDS),
            ("file", FILE_KINDS - {MOUNTED_FILE}),
            ("mounted file", frozenset({MOUNTED_FILE})),
            ("other component", frozenset(KINDS) - PACKAGE_KINDS - FILE_KINDS),
        )
        for noun, kinds in groups:
            total = self.count(kinds)
            if not total:
                continue
            ways = (
                (sum(item.kind in kinds for item in self.added), "added"),
                (sum(item.kind in kinds for item in self.removed), "removed"),
                (sum(item.after.kind in kinds for item in self.changed), "changed"),
            )
            how = ", ".join(f"{number} {way}" for number, way in ways if number)
            parts.append(f"{total} {noun} differs ({how})" if total == 1 else f"{total} {noun}s differ ({how})")
        return "; ".join(parts)


def diff_components(before: Iterable[Component], after: Iterable[Component]) -> SbomDiff:
    """Compare two sides by kind, name and architecture.

    Two components are the same if version and content hash agree; a hash that one side lacks (a foreign SBOM) is not
    held against the other. Where one name stands several times, equal ones are matched first and the rest paired in
    order of version.
    """
    left, right = _by_identity(before), _by_identity(after)
    added: list[Component] = []
    removed: list[Component] = []
    changed: list[Change] = []
    rank = {kind: number for number, kind in enumerate(KINDS)}
    for identity in sorted({*left, *right}, key=lambda key: (rank[key[0]], key)):
        old, new = _without_equal(left.get(identity, []), right.get(identity, []))
        pairs = min(len(old), len(new))
        changed.extend(Change(before=a, after=b) for a, b in zip(old[:pairs], new[:pairs], strict=True))
        removed.extend(old[pairs:])
        added.extend(new[pairs:])
    return SbomDiff(added=tuple(added), removed=tuple(removed), changed=tuple(changed))


def _by_identity(components: Iterable[Component]) -> dict[tuple[str, str, str], list[Component]]:
    result: dict[tuple[str, str, str], list[Component]] = defaultdict(list)
    for component in components:
        result[component.kind, component.name, component.architecture or ""].append(component)
    for group in result.values():
        group.sort(key=lambda item: (item.version or "", item.content_sha256 or "", item.places))
    return result


def _without_equal(old: list[Component], new: list[Component]) -> tuple[list[Component], list[Component]]:
    left = list(old)
    right: list[Component] = []
    for candidate in new:
        match = next((item for item in left if _same(item, candidate)), None)
        if match is None:
            right.append(candidate)
        else:
            left.remove(match)
    return left, right


def _same(a: Component, b: Component) -> bool:
    if a.version != b.version:
        return False
    return not a.content_sha256 or not b.content_sha256 or a.content_sha256 == b.content_sha256
