"""Start-up of the docker runtime over the process runtime, and the time of an SBOM.

Needs an engine (`.ci/containers start FOLDER`, then `. FOLDER/environment`), the image of a recipe, and an interpreter
with the same packages:

    python benchmarks/container.py --python .venv-vllm/bin/python
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from suite.errors import RunFailed
from suite.image.engine import connected
from suite.image.present import built_image
from suite.image.recipe import load_recipe
from suite.manifest.schema import Hardware
from suite.observer import SilentObserver
from suite.runtime.docker import DockerRuntime
from suite.runtime.interface import AgentCall, Folder, Runtime
from suite.runtime.process import ProcessRuntime
from suite.sbom.components import components_of, count_by_kind
from suite.sbom.container import inventory_of_image
from suite.sbom.cyclonedx import render_cyclonedx
from suite.sbom.schema import load_inventory

ROOT = Path(__file__).parent.parent
CPU = Hardware(kind="cpu", architecture="x86_64", threads=1)


def seconds_of(action: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return taken


def one_call(runtime: Runtime, folder: Path) -> None:
    """A command that the agent does not know: Python starts, says so and ends, and all the rest is the runtime's."""
    call = AgentCall(
        command="nothing", folders={"out": Folder(host=folder, writable=True)}, request=lambda paths: dict(paths)
    )
    try:
        runtime.call(call, SilentObserver())
    except RunFailed:
        return
    raise AssertionError("the agent knew the command")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="interpreter of the process runtime")
    parser.add_argument("--recipe", default="vllm-cpu")
    parser.add_argument("--image", action="append", default=[], help="also time the SBOM of this image")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as scratch, connected() as engine:
        home = Path(scratch)
        home.chmod(0o755)
        image = built_image(engine, load_recipe(options.recipe, root=ROOT))
        assert image is not None, f"build it first: suite image build {options.recipe}"
        runtimes: dict[str, Runtime] = {
            "process": ProcessRuntime(options.python.absolute(), home=home),
            "docker": DockerRuntime(image, hardware=CPU, home=home),
        }
        medians = {}
        for question, action in (
            ("packages", lambda runtime, _: runtime.packages()),
            ("call", one_call),
        ):
            for name, runtime in runtimes.items():
                taken = seconds_of(lambda: action(runtime, home / name), options.times)  # noqa: B023
                medians[name] = statistics.median(taken)
                result[f"{question} {name} seconds"] = [round(value, 3) for value in taken]
            result[f"{question} overhead seconds"] = round(medians["docker"] - medians["process"], 3)
        for name in (image.image_id, *options.image):
            read = seconds_of(
                lambda: inventory_of_image(name, engine=engine, home=home, observer=SilentObserver()),  # noqa: B023
                options.times,
            )
            raw = inventory_of_image(name, engine=engine, home=home, observer=SilentObserver())
            started = time.process_time()
            rendered = seconds_of(
                lambda: render_cyclonedx(load_inventory(raw, where=name)),  # noqa: B023
                options.times,
            )
            result[f"sbom {name}"] = {
                "components": count_by_kind(components_of(load_inventory(raw, where=name))),
                "reading seconds": [round(value, 3) for value in read],
                "rendering and strict validation seconds": [round(value, 3) for value in rendered],
                "of which processor seconds": round((time.process_time() - started) / options.times, 3),
            }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
