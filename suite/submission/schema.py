"""`submission.json`: what a submission is, which bundle it holds, and under which terms it becomes public."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from suite.bundle.schema import BundleId, Timestamp
from suite.capture.index import Count, Sha256
from suite.files import pretty_json
from suite.plain_text import PlainText
from suite.records import parse_strictly

SUBMISSIONS = "submissions"
"""Folder of all submissions below a results folder."""
SUBMISSION_NAME = "submission.json"
BUNDLE_FOLDER = "bundle"
COMMITMENT_NAME = "commitment.json"
AGGREGATES_NAME = "aggregates.json"
SCHEMA_VERSION = 1
SUBMISSION_LIMIT_BYTES = 64 << 10

SubmissionId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,119}-[0-9a-f]{12}$")]
KeyId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,20}:[0-9a-f]{64}$")]
Licence = Annotated[str, Field(pattern=r"^[A-Za-z0-9(][A-Za-z0-9.+() -]{0,99}$")]
"""An SPDX expression, for instance `CC-BY-4.0` or `LicenseRef-NAME`. Which ids SPDX lists, the writer looks up."""
Url = Annotated[str, Field(pattern=r"^https://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?/[A-Za-z0-9._~%/+@=-]{1,800}$")]
"""An address without user, query and fragment."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class EvidencePack(_Strict):
    """Where one side's hidden states or rows may be fetched, as one pack."""

    url: Url
    sha256: Sha256
    """Of the pack's bytes."""
    size_bytes: Count


class EvidencePacks(_Strict):
    """Packs of both sides; None where one is not published."""

    reference: EvidencePack | None
    candidate: EvidencePack | None


class CommitmentNote(_Strict):
    """The root of `commitment.json`, as it stands there."""

    root: Sha256
    leaves: Annotated[int, Field(ge=1)]


class Submission(_Strict):
    """The whole of `submission.json`."""

    schema_version: Literal[1]
    id: SubmissionId
    kind: Literal["full", "private"]
    """`full`: the bundle itself; `private`: aggregates of a session that stays with its owner."""
    created: Timestamp
    bundle_id: BundleId
    """Of a private submission the last 12 digits are keyed: a lock's own would let guesses of its session be tried."""
    record_sha256: Sha256
    """Of the bundle's record; of a private submission keyed, like `id`, which is made of it."""
    licence: Licence
    """Of what becomes public."""
    session_public: bool
    """The owner says that the session's text may be public."""
    evidence: EvidencePacks | None
    commitment: CommitmentNote | None
    submitter: KeyId | None
    """Key of the statement's signature; None where the submission is unsigned."""
    note: PlainText

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.id != submission_id(name=self.name, record_sha256=self.record_sha256):
            raise ValueError("`id` is not made of the bundle's name and record")
        if self.kind == "full" and not self.session_public:
            raise ValueError("a full submission holds the session's token ids: `session_public` must be true")
        if self.kind == "private" and (self.session_public or self.evidence or self.commitment):
            raise ValueError("a private submission has no public session, no evidence and no commitment")
        return self

    @property
    def name(self) -> str:
        """Of the bundle."""
        return self.bundle_id.partition("/")[0]

    def to_bytes(self) -> bytes:
        """The content of `submission.json`."""
        return pretty_json(self.model_dump(mode="json"))


def submission_id(*, name: str, record_sha256: str) -> str:
    """Name of a submission's folder.

    Args:
        name: Of the bundle.
        record_sha256: That of `Submission`, 64 hexadecimal digits.
    """
    return f"{name}-{record_sha256[:12]}"


def parse_submission(data: bytes, *, where: str) -> Submission:
    """Parse the bytes of a `submission.json`.

    Raises:
        InvalidInput: not strict JSON, a newer schema, or a value that no submission has.
    """
    return parse_strictly(Submission, data, where=where, newest=SCHEMA_VERSION, what="not a submission: ")
