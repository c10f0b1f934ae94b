"""Check files and folders of manifests: faults, missing facts, known traps, factors against the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.errors import InvalidInput, SuiteError
from suite.manifest.arbiter import arbiter_refusals
from suite.manifest.diff import Comparison, factors
from suite.manifest.load import SUFFIXES, Loader, find_root, is_fragment
from suite.manifest.problems import InvalidManifest, shown
from suite.manifest.schema import Manifest
from suite.stack.known_bad import findings


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """One file's result."""

    file: Path
    fragment: bool
    """Whether it is a part that others extend; its keys are checked, its values where they are used."""
    manifest: Manifest | None
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    comparison: Comparison | None
    """With its reference, as far as unlocked manifests tell."""

    def to_json(self) -> dict[str, object]:
        """As plain JSON values."""
        return {
            "file": shown(self.file),
            "fragment": self.fragment,
            "name": self.manifest.name if self.manifest else None,
            "errors": list(self.errors),
            "warnings": list(self.warnings),
            "factors": [f.name for f in self.comparison.factors] if self.comparison else None,
            "consequent": [f.name for f in self.comparison.consequent] if self.comparison else None,
        }


def manifest_files(paths: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield `(file, top)` for each path: a file as it is, a folder's `.yaml` files in order, links not followed.

    Raises:
        InvalidInput: a path does not exist, or a folder holds no manifest.
    """
    for path in paths:
        if path.is_dir():
            found = sorted(f for f in path.rglob("*") if f.suffix in SUFFIXES and f.is_file() and not f.is_symlink())
            if not found:
                raise InvalidInput("holds no .yaml file", where=str(path))
            yield from ((file, path) for file in found)
        elif path.is_file():
            yield path, path.parent
        else:
            raise InvalidInput("no such file or folder", where=str(path))


def check(paths: Iterable[Path]) -> list[Checked]:
    """Check every manifest of `paths`; shared files are read once.

    Raises:
        InvalidInput: a path does not exist, or a folder holds no manifest.
    """
    loader = Loader()
    results = [_check(file, top, loader) for file, top in manifest_files(paths)]
    return _same_names(results)


def _check(file: Path, top: Path, loader: Loader) -> Checked:
    fragment = is_fragment(file, top)
    manifest: Manifest | None = None
    comparison: Comparison | None = None
    errors: list[str] = []
    warnings: list[str] = []
    try:
        if fragment:
            loader.merged(file)
        else:
            manifest = loader.load(file)
    except InvalidManifest as error:
        errors += [str(problem) for problem in error.problems]
    if manifest is not None:
        warnings += [f"missing: {key}: {why}" for key, why in sorted(manifest.missing.items())]
        for finding in findings(manifest):
            (errors if finding.severity == "refuse" else warnings).append(str(finding))
        if not manifest.workload_file.exists():
            warnings.append(f"workload.session: no such file yet: {manifest.workload.session}")
        if manifest.reference_file is not None:
            comparison, fault = _compare(manifest, manifest.reference_file, loader)
            errors += [fault] if fault else []
        errors += _arbiter_faults(manifest, loader)
    return Checked(
        file=file,
        fragment=fragment,
        manifest=manifest,
        errors=tuple(errors),
        warnings=tuple(warnings),
        comparison=comparison,
    )


def _compare(manifest: Manifest, reference_file: Path, loader: Loader) -> tuple[Comparison | None, str | None]:
    try:
        reference = loader.load(reference_file)
    except SuiteError as error:
        return None, f"reference: {error.message}"
    comparison = factors(reference, manifest)
    if comparison.not_comparable:
        return comparison, f"reference: {comparison.verdict}"
    return comparison, None


def _arbiter_faults(manifest: Manifest, loader: Loader) -> list[str]:
    if manifest.arbiter_file is None or manifest.reference_file is None:
        return []
    try:
        arbiter, reference = loader.load(manifest.arbiter_file), loader.load(manifest.reference_file)
    except SuiteError as error:
        return [f"arbiter: {error.message}"]
    return [f"arbiter: {why}" for why in arbiter_refusals(reference, manifest, arbiter)]


def _same_names(results: list[Checked]) -> list[Checked]:
    """Results of two manifests of one name would lie in one folder."""
    seen: dict[tuple[Path, str], Path] = {}
    for result in results:
        if result.manifest is None:
            continue
        key = (find_root(result.file), result.manifest.name)
        first = seen.setdefault(key, result.file)
        if first.absolute() != result.file.absolute():
            fault = f"name: {result.manifest.name!r} is also the name of {shown(first)}"
            results[results.index(result)] = _with_error(result, fault)
    return results


def _with_error(result: Checked, fault: str) -> Checked:
    return Checked(
        file=result.file,
        fragment=result.fragment,
        manifest=result.manifest,
        errors=(*result.errors, fault),
        warnings=result.warnings,
        comparison=result.comparison,
    )
