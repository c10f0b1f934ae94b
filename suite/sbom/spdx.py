"""SPDX 2.3 JSON, written directly: the document is small, and the tests read it back with SPDX's own tools."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from suite import __version__
from suite.files import pretty_json
from suite.sbom.components import components_of, count_by_kind
from suite.sbom.cyclonedx import content_uuid
from suite.sbom.interface import EXECUTABLE, FILE_KINDS, OPERATING_SYSTEM, Component
from suite.sbom.licence import is_spdx_expression
from suite.sbom.schema import Inventory

_UNKNOWN = "NOASSERTION"


def render_spdx(inventory: Inventory, *, timestamp: datetime | None = None) -> bytes:
    """The inventory as SPDX 2.3 JSON.

    Args:
        inventory: What was read.
        timestamp: When, in UTC. SPDX demands a time: if None, the Unix epoch stands there, so that equal stacks have
            equal files.
    """
    components = components_of(inventory)
    packages = [_package(component, f"SPDXRef-{number}") for number, component in enumerate(components, start=1)]
    counts = ", ".join(f"{count} {kind}" for kind, count in count_by_kind(components).items())
    findings = [f"{item.code}: {item.path}: {item.detail}" for item in inventory.findings]
    created = (timestamp or datetime.fromtimestamp(0, tz=UTC)).astimezone(UTC)
    return pretty_json(
        {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": "stack",
            "documentNamespace": f"urn:uuid:{content_uuid(components)}",
            "creationInfo": {
                "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "creators": [f"Tool: suite-{__version__}"],
            },
            "comment": "\n".join([f"components: {counts or 'none'}", *findings]),
            "packages": packages,
            "relationships": [
                {
                    "spdxElementId": "SPDXRef-DOCUMENT",
                    "relationshipType": "DESCRIBES",
                    "relatedSpdxElement": package["SPDXID"],
                }
                for package in packages
            ],
        }
    )


def _package(component: Component, identifier: str) -> dict[str, Any]:
    facts = [("kind", component.kind), *component.properties]
    if component.architecture:
        facts.append(("architecture", component.architecture))
    purpose = "LIBRARY"
    package: dict[str, Any] = {
        "SPDXID": identifier,
        "name": component.name,
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": _UNKNOWN,
        "copyrightText": _UNKNOWN,
    }
    if component.version is not None:
        package["versionInfo"] = component.version
    if component.kind == OPERATING_SYSTEM:
        purpose = "OPERATING_SYSTEM"
    elif component.kind in FILE_KINDS:
        purpose = "APPLICATION" if component.kind == EXECUTABLE else "LIBRARY"
        if component.content_sha256:
            package["checksums"] = [{"algorithm": "SHA256", "checksumValue": component.content_sha256}]
    elif component.content_sha256:
        facts.append(("content_sha256", component.content_sha256))
    package["primaryPackagePurpose"] = purpose
    if component.licence is not None:
        if is_spdx_expression(component.licence):
            package["licenseDeclared"] = component.licence
        else:
            package["licenseComments"] = f"declared as: {component.licence}"
    if component.places:
        package["sourceInfo"] = "\n".join(f"found at {place}" for place in component.places)
    if component.purl:
        package["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": component.purl}
        ]
    package["comment"] = "\n".join(f"suite:{name}={value}" for name, value in sorted(facts))
    return package
