"""Package URLs, written by their own library; None for what cannot be written as one."""

from __future__ import annotations

from collections.abc import Mapping


def make_purl(
    kind: str,
    name: str,
    version: str | None,
    *,
    namespace: str | None = None,
    qualifiers: Mapping[str, str | None] | None = None,
) -> str | None:
    """`pkg:kind/namespace/name@version?qualifiers`, percent-encoded; qualifiers that are None are left out."""
    from packageurl import PackageURL

    present = {key: value for key, value in (qualifiers or {}).items() if value}
    try:
        text = PackageURL(
            type=kind, namespace=namespace, name=name, version=version, qualifiers=present or None
        ).to_string()
        # Read back at once: the library writes some hostile names that it then refuses.
        PackageURL.from_string(text)
    except (ValueError, TypeError):
        return None
    return text
