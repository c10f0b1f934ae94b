"""Recall and false alarms of scrubbing. One command: python benchmarks/scrub.py

Recall is counted on the labelled set of tests/workload/scrub; false alarms on texts in which nothing is private: its
clean lines, and this repository's own documentation and code, where what is found is listed to be judged.
"""

import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from suite.workload.scrub.private_map import PrivateMap  # noqa: E402
from suite.workload.scrub.text import TextScrubber  # noqa: E402
from tests.workload.scrub.labelled import CLEAN, plants  # noqa: E402
from tests.workload.scrub.test_labelled import survivors  # noqa: E402


def main() -> None:
    planted = tuple(plants(per_kind=40))
    missed = []
    for plant in planted:
        missed += survivors((plant,), TextScrubber(PrivateMap()).run([plant.text]))
    total, lost = Counter(p.kind for p in planted), Counter(p.kind for p in missed)
    for kind, count in total.items():
        print(f"{kind:24} {count - lost[kind]:4} of {count}")
    found = len(planted) - len(missed)
    print(f"recall: {found} of {len(planted)} secrets of {len(total)} kinds ({100 * found / len(planted):.2f} %)")
    for plant in missed:
        print(f"  missed: {plant.kind}, {plant.form}: {plant.text!r}")
    alarms = [text for text in CLEAN if TextScrubber(PrivateMap()).run([text]) != [text]]
    print(f"false alarms: {len(alarms)} of {len(CLEAN)} clean lines {alarms or ''}")
    files = [
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("suite/score/*.py"),
        *ROOT.glob("suite/manifest/*.py"),
        ROOT / "LICENSE",
    ]
    texts = [path.read_text(encoding="utf-8") for path in files]
    private = PrivateMap()
    begun = time.perf_counter()
    TextScrubber(private).run(texts)
    seconds = time.perf_counter() - begun
    places = sum(entry.count for entry in private.entries)
    print(f"own documentation and code: {places} places in {sum(map(len, texts)):,} characters, {seconds:.1f} s")
    for entry in private.entries:
        print(f"  {entry.kind}: {entry.value!r} ({entry.count})")


if __name__ == "__main__":
    main()
