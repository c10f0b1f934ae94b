"""The viewer of forking futures: a page for each table of bundles, its data in files that a script loads by range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from suite.score.classes import FLIP_CLASSES
from suite.site import futures_data as data
from suite.site.data import BundleFacts, CohortFacts, Site
from suite.site.futures_data import StackRef
from suite.site.interface import Copied, Link, Output
from suite.site.keys import key_of
from suite.site.rendering import Renderer, script_call
from suite.site.text import visible
from suite.site.token_texts import texts_path

_SUREST = 30
"""Flips in the table of a page that is read without script."""
_FORKS_SHOWN = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stack:
    """One bundle of a page."""

    facts: BundleFacts
    stack_id: str

    @property
    def ref(self) -> StackRef:
        return StackRef(folder=self.facts.folder, file_hashes=self.facts.file_hashes)


@dataclass(frozen=True, kw_only=True, slots=True)
class _View:
    """One page."""

    cohort: CohortFacts
    folder: str
    stacks: tuple[_Stack, ...]


class FuturesPages:
    """Pages, and data files beside them."""

    name = "futures"

    def outputs(self, site: Site) -> Iterable[Output | Copied]:
        """A page with its data for each table that holds a bundle with a flip, and the list of pages."""
        views = list(_views(site))
        key = key_of("futures", [[view.folder, [s.facts.key for s in view.stacks]] for view in views])
        yield Output(path="futures/index.html", key=key, make=partial(_index, tuple(views)))
        for view in views:
            yield from _files(view)

    def links(self, bundle: BundleFacts) -> Iterable[Link]:
        """The page of its table, at this stack."""
        if not bundle.flips or not bundle.latest:
            return ()
        followed = sum(c.used for c in bundle.consequences)
        told = (
            f"{followed:,} flips followed into both futures"
            if followed
            else "top candidates at each flip; no flip was followed"
        )
        target = f"{folder_of(bundle)}/index.html#stacks={stack_id_of(bundle)}"
        return (Link(path=target, text="Flips in the token stream, and what became of them", detail=told),)


def folder_of(bundle: BundleFacts) -> str:
    """Folder of the page on which a bundle stands: the same for all that were measured at the same reference rows."""
    return f"futures/{bundle.path}-{bundle.n}-{bundle.reference_rows_sha256[:12]}"


def stack_id_of(bundle: BundleFacts) -> str:
    """How addresses name a stack: by the first digits of its lock's digest."""
    return bundle.lock_digest[:12]


def _views(site: Site) -> Iterator[_View]:
    taken: set[str] = set()
    for cohort in site.cohorts:
        bundles = [site.by_id[row.bundle_id] for row in cohort.rows]
        # A stack of the same lock measured twice has one address: the table's latest.
        unique = {stack_id_of(bundle): bundle for bundle in bundles if bundle.flips}
        if not unique:
            continue
        folder = folder_of(bundles[0])
        if folder in taken:  # a record that names rows which are not its ledger's
            folder = f"{folder}-{cohort.key[:6]}"
        taken.add(folder)
        stacks = tuple(_Stack(facts=bundle, stack_id=stack_id) for stack_id, bundle in unique.items())
        yield _View(cohort=cohort, folder=folder, stacks=stacks)


def _files(view: _View) -> Iterator[Output]:
    first = view.stacks[0]
    ranges = range(data.num_ranges(view.cohort.workload_tokens))
    whole = key_of("futures page", view.folder, [[s.facts.key, s.stack_id] for s in view.stacks])
    yield Output(path=f"{view.folder}/index.html", key=whole, make=partial(_page, view))
    yield Output(path=f"{view.folder}/index.js", key=whole, make=partial(_index_file, view))
    for number in ranges:
        yield Output(
            path=f"{view.folder}/tokens-{number}.js",
            key=f"tokens {first.facts.key} {number}",
            make=_without_renderer(partial(data.tokens_file, first.ref, number)),
        )
    for stack in view.stacks:
        yield Output(
            path=f"{view.folder}/{stack.stack_id}/stack.js",
            key=f"stack {stack.facts.key}",
            make=_without_renderer(partial(data.stack_file, stack.ref, stack.stack_id)),
        )
        for number in ranges:
            yield Output(
                path=f"{view.folder}/{stack.stack_id}/flips-{number}.js",
                key=f"flips {stack.facts.key} {number}",
                make=_without_renderer(partial(data.flips_file, stack.ref, stack.stack_id, number)),
            )
        for segment in range(stack.facts.fork_segments):
            yield Output(
                path=f"{view.folder}/{stack.stack_id}/forks-{segment}.js",
                key=f"forks {stack.facts.key} {segment}",
                make=_without_renderer(partial(data.forks_file, stack.ref, stack.stack_id, segment)),
            )


class _without_renderer:  # noqa: N801 - a callable that can be handed to another process
    def __init__(self, make: partial[bytes]) -> None:
        self._make = make

    def __call__(self, renderer: Renderer) -> bytes:
        return self._make()


def _index_file(view: _View, renderer: Renderer) -> bytes:
    """What the viewer must know before it loads a range."""
    stacks = [
        {
            "id": stack.stack_id,
            "name": visible(stack.facts.name),
            "factor": "numerical band" if stack.facts.is_band else visible(stack.facts.factor_text),
            "flips": stack.facts.flips,
            "forks": sum(c.used for c in stack.facts.consequences),
        }
        for stack in view.stacks
    ]
    value: dict[str, Any] = {
        "name": "index",
        "classes": list(FLIP_CLASSES),
        "num_tokens": view.cohort.workload_tokens,
        "range_tokens": data.RANGE_TOKENS,
        "bins": data.BINS,
        "reference": visible(view.cohort.reference),
        "chosen": _first_chosen(view).stack_id,
        "stacks": stacks,
    }
    return script_call("futures.take", value)


def _page(view: _View, renderer: Renderer) -> bytes:
    chosen = _first_chosen(view)
    return renderer.page(
        "futures.html",
        path=f"{view.folder}/index.html",
        title=f"Forking futures: {view.cohort.model} on {view.cohort.gpu}",
        section="futures",
        cohort=view.cohort,
        stacks=view.stacks,
        chosen=chosen,
        followed=sum(sum(c.used for c in s.facts.consequences) for s in view.stacks),
        surest=list(_surest(chosen)),
        forks=[data.fork_value(fork) for fork in _telling(chosen)],
        has_texts=_has_texts(view),
        folder=view.folder,
        classes=FLIP_CLASSES,
        num_ranges=data.num_ranges(view.cohort.workload_tokens),
    )


def _first_chosen(view: _View) -> _Stack:
    """The stack that is shown first: one with futures, else the candidate with the surest flips."""
    return max(
        view.stacks,
        key=lambda s: (
            s.ref.has_forks,
            not s.facts.is_band,
            s.facts.flips_confident,
            s.facts.flips_leaning,
            s.facts.flips,
        ),
    )


def _surest(stack: _Stack) -> Iterator[dict[str, Any]]:
    """The flips of which the reference was surest, for a page that is read without script."""
    columns = data.ledger_of(stack.ref).columns
    rows = [int(i) for i in columns["flip"].nonzero()[0] if columns["flip_class"][i] != "tied"]
    rows.sort(key=lambda i: -float(columns["ref_p_ref_top1"][i]))
    texts = data.vocabulary_of(stack.ref)
    for i in rows[:_SUREST]:
        yield {
            "at": int(columns["position"][i]) + 1,
            "kind": str(columns["flip_class"][i]),
            "span": str(columns["span_kind"][i]),
            "target": texts.get(int(columns["target_id"][i])) or f"id {int(columns['target_id'][i])}",
            "reference": texts.get(int(columns["ref_top1"][i])) or f"id {int(columns['ref_top1'][i])}",
            "candidate": texts.get(int(columns["cand_top1"][i])) or f"id {int(columns['cand_top1'][i])}",
            "p": [float(columns[name][i]) for name in data.SIDES],
        }


def _telling(stack: _Stack) -> list[Any]:
    """Forks to show without script: those that did the most harm first."""
    order = ("broken envelope", "wrong command", "wrong literal", "valid but different", "other words", "undecided")
    forks = [fork for fork in data.forks_of(stack.ref) if fork.consequence is not None]
    place = {name: number for number, name in enumerate(order)}
    forks.sort(key=lambda f: (place.get(f.consequence.name if f.consequence else "", len(order)), f.position))
    return forks[:_FORKS_SHOWN]


def _has_texts(view: _View) -> bool:
    facts = data.ledger_of(view.stacks[0].ref).facts
    return texts_path(facts.tokens_sha256).is_file()


def _index(views: tuple[_View, ...], renderer: Renderer) -> bytes:
    rows = [
        {
            "page": f"{view.folder}/index.html",
            "cohort": view.cohort,
            "num_stacks": len(view.stacks),
            "flips": sum(stack.facts.flips for stack in view.stacks),
            "followed": sum(sum(c.used for c in s.facts.consequences) for s in view.stacks),
        }
        for view in views
    ]
    return renderer.page(
        "futures_index.html", path="futures/index.html", title="Forking futures", section="futures", rows=rows
    )
