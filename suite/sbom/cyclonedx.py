"""CycloneDX 1.6 JSON through the project's own library, the same bytes for the same inventory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from suite.errors import InvalidInput
from suite.files import canonical_json, pretty_json, sha256_bytes, strict_json
from suite.sbom.components import components_of, count_by_kind, references
from suite.sbom.interface import FILE_KINDS, OPERATING_SYSTEM, Component
from suite.sbom.licence import is_spdx_expression, is_spdx_id
from suite.sbom.schema import Inventory

if TYPE_CHECKING:
    from cyclonedx.model.component import Component as CycloneComponent
    from cyclonedx.model.license import License

PROPERTY_PREFIX = "suite:"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/schema/bom-1.6.schema.json#suite")


def content_uuid(components: Iterable[Component]) -> uuid.UUID:
    """A UUID (version 5) that follows from the components alone."""
    return uuid.uuid5(NAMESPACE, sha256_bytes(canonical_json([asdict(component) for component in components])))


def render_cyclonedx(inventory: Inventory, *, timestamp: datetime | None = None) -> bytes:
    """The inventory as CycloneDX 1.6 JSON.

    Args:
        inventory: What was read.
        timestamp: When, in UTC; left out of the file if None, so that equal stacks have equal files.

    Raises:
        InvalidInput: the inventory holds something that CycloneDX cannot say.
    """
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.output.json import JsonV1Dot6

    components = components_of(inventory)
    names = references(components)
    facts = [Property(name=f"{PROPERTY_PREFIX}schema_version", value="1")]
    for kind, count in count_by_kind(components).items():
        facts.append(Property(name=f"{PROPERTY_PREFIX}count:{kind}", value=str(count)))
    for finding in inventory.findings:
        text = f"{finding.code}: {finding.path}: {finding.detail}"
        facts.append(Property(name=f"{PROPERTY_PREFIX}finding", value=text))
    bom = Bom(
        serial_number=content_uuid(components),
        metadata=BomMetaData(properties=facts, timestamp=timestamp or datetime.fromtimestamp(0, tz=UTC)),
        components=[_component(item, ref) for item, ref in zip(components, names, strict=True)],
    )
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    # The library writes an empty entry for every component, which would claim that none depends on another.
    document.pop("dependencies", None)
    _put_in_order(document, names)
    if timestamp is None:
        # The library insists on a time; the format does not.
        del document["metadata"]["timestamp"]
    data = pretty_json(document)
    check_cyclonedx(data, where="the CycloneDX file made from this inventory")
    return data


def _put_in_order(document: dict[str, Any], names: list[str]) -> None:
    """Order what the library keeps in sets whose order changes from one process to the next."""
    rank = {name: number for number, name in enumerate(names)}
    document.get("components", []).sort(key=lambda item: rank[item["bom-ref"]])
    for item in (document["metadata"], *document.get("components", [])):
        item.get("properties", []).sort(key=lambda fact: (fact["name"], fact["value"]))
        item.get("evidence", {}).get("occurrences", []).sort(key=lambda found: found["location"])


def check_cyclonedx(data: bytes, *, where: str) -> None:
    """Validate strictly against the CycloneDX 1.6 JSON schema.

    Raises:
        InvalidInput: it does not conform; the message names the first place.
    """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    value = strict_json(data, where=where)
    if not isinstance(value, dict) or value.get("specVersion") != "1.6":
        raise InvalidInput("not valid CycloneDX 1.6: specVersion is not 1.6", where=where)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode())
    if problem is not None:
        path = "/".join(str(part) for part in getattr(problem.data, "absolute_path", ()))
        message = str(getattr(problem.data, "message", problem.data))[:200]
        raise InvalidInput(f"not valid CycloneDX 1.6 at {path or 'the top'}: {message}", where=where)


def _component(component: Component, reference: str) -> CycloneComponent:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component as CycloneComponent
    from cyclonedx.model.component import ComponentType
    from cyclonedx.model.component_evidence import ComponentEvidence, Occurrence
    from packageurl import PackageURL

    facts = [("kind", component.kind), *component.properties]
    if component.architecture:
        facts.append(("architecture", component.architecture))
    hashes = []
    kind = ComponentType.LIBRARY
    if component.kind == OPERATING_SYSTEM:
        kind = ComponentType.OPERATING_SYSTEM
    elif component.kind in FILE_KINDS:
        kind = ComponentType.FILE
        if component.content_sha256:
            hashes = [HashType(alg=HashAlgorithm.SHA_256, content=component.content_sha256)]
    elif component.content_sha256:
        # Of a list of files, so not what CycloneDX calls the component's hash.
        facts.append(("content_sha256", component.content_sha256))
    return CycloneComponent(
        type=kind,
        name=component.name,
        version=component.version,
        bom_ref=reference,
        purl=PackageURL.from_string(component.purl) if component.purl else None,
        licenses=_licences(component.licence),
        hashes=hashes,
        evidence=ComponentEvidence(occurrences=[Occurrence(location=place) for place in component.places])
        if component.places
        else None,
        properties=[Property(name=f"{PROPERTY_PREFIX}{name}", value=value) for name, value in facts],
    )


def _licences(text: str | None) -> list[License]:
    from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression

    if text is None:
        return []
    if is_spdx_id(text):
        return [DisjunctiveLicense(id=text)]
    return [LicenseExpression(text) if is_spdx_expression(text) else DisjunctiveLicense(name=text)]
