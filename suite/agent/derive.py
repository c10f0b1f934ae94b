"""Turn a GGUF file into a BF16 checkpoint folder, with the libraries of the stack that will serve it.

Runs as a script (`python -P derive.py SOURCE.gguf FOLDER`) in an interpreter where `suite` need not be installed, with
the standard library, torch, transformers, safetensors, gguf and accelerate. The bytes written depend on the GGUF file
alone: whatever names the machine or the converting library is taken out of the JSON files.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import Any

# One file up to this size; beyond it transformers shards at tensor boundaries, which is deterministic as well.
MAX_SHARD_SIZE = "50GB"

# Keys that name the converting library, the machine or the way of loading, not the model.
VOLATILE_KEYS = frozenset(
    {
        "transformers_version",
        "_name_or_path",
        "_model_name_or_path",
        "_from_model_config",
        "backend",
        "is_local",
        "local_files_only",
    }
)

PROBE = "interface GigabitEthernet0/0/1\n  ip address 10.20.30.1/24  # café, 'port': 5432\n"
"""Text in which another tokenizer model, or one without its merges, shows."""

# What transformers 5 writes, and the name under which older releases know the same class.
TOKENIZER_CLASSES = {"TokenizersBackend": "PreTrainedTokenizerFast"}


def stable_config(config: dict[str, Any]) -> dict[str, Any]:
    """The same configuration without what differs between machines and library versions."""
    stable = {key: value for key, value in config.items() if key not in VOLATILE_KEYS}
    name = stable.get("tokenizer_class")
    if name in TOKENIZER_CLASSES:
        stable["tokenizer_class"] = TOKENIZER_CLASSES[name]
    return stable


def rewrite_json(path: Path) -> None:
    """Replace one JSON file of the folder by its stable form: sorted keys, two spaces, a closing newline."""
    config = stable_config(json.loads(path.read_text(encoding="utf-8")))
    path.write_text(json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def convert(source: Path, folder: Path) -> None:
    """Dequantise `source` into `folder`: config, generation config, tokenizer, chat template, BF16 safetensors.

    Raises:
        OSError: `source` cannot be read or `folder` not be written.
        ValueError: transformers does not know the architecture or a tensor type of the file, or saves another tokenizer
            than it reads.
    """
    import gguf
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers import __version__ as version

    # transformers reads the file anew for the configuration, the weights and the tokenizer, each time for seconds.
    gguf.GGUFReader = functools.lru_cache(gguf.GGUFReader)
    place = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(
        **place, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    model.save_pretrained(folder, max_shard_size=MAX_SHARD_SIZE)
    tokenizer = AutoTokenizer.from_pretrained(**place)
    tokenizer.save_pretrained(folder)
    require_same_tokens(tokenizer, AutoTokenizer.from_pretrained(folder), library=f"transformers {version}")
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        if (folder / name).exists():
            rewrite_json(folder / name)


def require_same_tokens(read: Any, saved: Any, *, library: str) -> None:
    """Check that a saved tokenizer gives the tokens of the one that was read: not every release keeps its model.

    Raises:
        ValueError: it gives others, or the text does not come back from them.
    """
    ids, again = (tokenizer.encode(PROBE, add_special_tokens=False) for tokenizer in (read, saved))
    if ids != again or saved.decode(again, clean_up_tokenization_spaces=False) != PROBE:
        raise ValueError(
            f"{library} does not save the tokenizer that it reads from this file (a text of {len(ids)} tokens has "
            f"{len(again)} afterwards): install another release, then derive again"
        )


def main() -> None:
    """Parse the two arguments and convert."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="GGUF file")
    parser.add_argument("folder", type=Path, help="folder to write; must exist")
    arguments = parser.parse_args()
    convert(arguments.source.resolve(), arguments.folder.resolve())


if __name__ == "__main__":
    main()
