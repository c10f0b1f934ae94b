"""`suite site`: the static site of a results folder."""

from __future__ import annotations

import os
from pathlib import Path

import click

from suite.cli.progress import Progress


@click.group()
def site() -> None:
    """Build guides, leaderboard and result pages from bundles, and look at them."""


@site.command()
@click.option(
    "--results",
    multiple=True,
    type=click.Path(path_type=Path),
    default=("results",),
    show_default=True,
    metavar="DIR",
    help="Folder of bundles; may be given several times.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder of the site.")
@click.option(
    "--manifests",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Manifests whose launch commands are shown. [default: manifests, where it exists]",
)
@click.option("--base-url", default="", metavar="URL", help="Where the site will lie, for the feed's addresses.")
@click.option("--published", is_flag=True, help="Leave out bundles that git does not know: what you measured here.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes. [default: one a core, at most 8]")
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
def build(
    results: tuple[Path, ...],
    out: Path,
    manifests: Path | None,
    base_url: str,
    jobs: int | None,
    *,
    published: bool,
    quiet: bool,
) -> None:
    """Write the site, or bring it up to date: only what has changed is made again.

    The files need no server: they can be opened from the disk, or copied to any static host.
    """
    # Before NumPy is loaded: the products here are small, and threads would mostly wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from suite.site.build import BuildOptions, build_site
    from suite.site.options import checked_base_url, default_cache, default_manifests
    from suite.site.workers import workers_here

    options = BuildOptions(
        results=results,
        out=out,
        cache=default_cache(out),
        manifests=default_manifests(manifests),
        base_url=checked_base_url(base_url),
        published_only=published,
        workers=jobs or workers_here(),
    )
    with Progress(quiet=quiet) as progress:
        report = build_site(options, observer=progress.line("site"))
    for refused in report.refused:
        click.echo(f"not shown: {refused.place}: {refused.reason}", err=True)
    if not quiet:
        click.echo(
            f"{report.num_bundles:,} bundles, {report.num_files:,} files ({report.num_written:,} written, "
            f"{report.num_removed:,} removed), {report.size_bytes / 1e6:.1f} MB: {out / 'index.html'}"
        )
        if not report.num_bundles:
            where = ", ".join(map(str, results))
            click.echo(
                f"no bundle lies in {where}: a bundle is a folder RESULTS/STACK/STAMP with a bundle.json", err=True
            )
        if report.num_unknown:
            click.echo(_told_unknown(report.num_unknown), err=True)


def _told_unknown(count: int) -> str:
    what = "1 bundle that git does not know is" if count == 1 else f"{count:,} bundles that git does not know are"
    return f"{what} shown, for your own eyes; before you publish, --published leaves out what git does not know"


@site.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
def serve(folder: Path, port: int) -> None:
    """Serve a built site on this machine, until interrupted. Any static host does the same."""
    from suite.site.serve import open_server

    with open_server(folder, port=port) as server:
        click.echo(f"http://127.0.0.1:{server.server_port}/", err=True)
        server.serve_forever()


@site.command()
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--tokenizer", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder of the model.")
@click.option("--chat-template", type=click.Path(path_type=Path), metavar="FILE", help="In place of the model's own.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default="results",
    show_default=True,
    metavar="DIR",
    help="Bundles whose best tokens are spelt too.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="[default: where builds look for it]")
def texts(session: Path, tokenizer: Path, chat_template: Path | None, results: Path, out: Path | None) -> None:
    """Write what the tokens of SESSION spell, so that the viewer of futures shows words: ledgers hold ids alone."""
    from suite.cli.workload import read_template
    from suite.files import write_atomic
    from suite.site.token_texts import best_tokens, make_texts, texts_path
    from suite.workload.render import render
    from suite.workload.session import load_session
    from suite.workload.tokenizer import load_tokenizer

    loaded = load_session(session)
    rendered = render(loaded, tokenizer, chat_template=read_template(chat_template))
    made = make_texts(loaded, rendered, load_tokenizer(tokenizer), others=best_tokens(results, rendered.tokens_sha256))
    path = texts_path(made.tokens_sha256) if out is None else out / texts_path(made.tokens_sha256).name
    write_atomic(path, made.to_bytes())
    click.echo(f"{path}: {len(made.token_ids):,} tokens, {len(made.others):,} others")
