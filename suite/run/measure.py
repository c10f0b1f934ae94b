"""Manifests in, report out: prepare, see that it fits, execute. What `suite run` and `suite gate` both do."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from suite.errors import InvalidInput
from suite.manifest.load import load_manifest
from suite.run.execute import ObserverFor, RunOptions, RunReport, default_jobs, execute
from suite.run.prepare import Prepared, prepare
from suite.run.stack import refusal_of
from suite.stack.home import require_writable_results, suite_home


def measure(
    manifests: Sequence[Path],
    *,
    results: Path,
    root: Path,
    observer_for: ObserverFor,
    cancelled: threading.Event,
    repeats: int | None = None,
    jobs: int | None = None,
    resume: bool = False,
    streaming: bool = False,
    packs: Sequence[str] = (),
    standing_packs: Sequence[str] = (),
    signers: Sequence[str] = (),
    skip_refused: bool = False,
) -> tuple[Prepared, RunReport]:
    """Measure stacks and write their bundles; what the capture store holds already is not run again.

    Args:
        manifests: Manifest files.
        results: Where bundles are written.
        root: Where a local `.venv-vllm` is looked for.
        observer_for: Progress.
        cancelled: Set here on Ctrl-C, which is passed on once every running start has ended; whole chunks stay.
        repeats: Starts of each stack; None: what its manifest says.
        jobs: Starts at work at the same time; None: see `default_jobs`.
        resume: Go on from the whole chunks of interrupted starts.
        streaming: Score while engines run, where both sides hold hidden states.
        packs: Reference packs for this run.
        standing_packs: Packs to look into where they fit.
        signers: Key ids, one of which must have signed whatever pack is taken.
        skip_refused: Leave out, and name in the report, what this machine is known not to run, instead of raising.

    Raises:
        InvalidInput, MissingPrerequisite, VerificationFailed: before anything started; see `prepare`.
    """
    runnable, left_out = list(manifests), dict[str, str]()
    for path in manifests if skip_refused else ():
        manifest = load_manifest(path)
        if (finding := refusal_of(manifest, home=suite_home())) is not None:
            runnable.remove(path)
            left_out[manifest.name] = str(finding)
            observer_for(manifest.name).warn(f"left out: {finding}")
    if not runnable:
        raise InvalidInput(
            "this machine can run none of these stacks", hint="`suite plan` says why of each; name others"
        )
    try:
        prepared = prepare(
            runnable,
            root=root,
            observer_for=observer_for,
            cancelled=cancelled,
            packs=packs,
            standing_packs=standing_packs,
            signers=signers,
        )
        options = RunOptions(
            repeats=repeats, jobs=jobs or default_jobs(prepared.all_stacks), resume=resume, streaming=streaming
        )
        prepared.require_room(options)
        require_writable_results(results)
        report = execute(
            prepared.stacks,
            prepared.references,
            store=prepared.store,
            root=root,
            results=results,
            options=options,
            observer_for=observer_for,
            cancelled=cancelled,
        )
    except KeyboardInterrupt:
        cancelled.set()
        raise
    report.left_out.update(left_out)
    return prepared, report
