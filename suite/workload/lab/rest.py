"""The inventory's REST interface: pages, filters, changes, and errors that name what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from suite.workload.lab.linux import api_is_up
from suite.workload.lab.model import Table, World
from suite.workload.lab.result import Refused

MAX_PAGE_SIZE = 100
_DEFAULT_PAGE_SIZE = 20


def get(world: World, path: str, query: Mapping[str, Any]) -> str:
    """A collection, page by page, or one object.

    Raises:
        Refused: the status line and body of an error answer.
    """
    name, table, number = _resource(world, path)
    if number is not None:
        return _dump(_row(table, path, number))
    filters = {key: value for key, value in query.items() if key not in ("page", "page_size")}
    for key in filters:
        if key not in table.columns:
            allowed = ["page", "page_size", *table.columns]
            raise _error(400, f"unknown parameter '{key}'", allowed=allowed)
    page, size = (_positive(query, key, value) for key, value in (("page", 1), ("page_size", _DEFAULT_PAGE_SIZE)))
    if size > MAX_PAGE_SIZE:
        raise _error(400, f"page_size {size} is above the maximum of {MAX_PAGE_SIZE}")
    rows = [row for row in table.rows if all(_same(row[key], value) for key, value in filters.items())]
    last = max(1, -(-len(rows) // size))
    if page > last:
        raise _error(404, f"page {page} does not exist; the last page is {last}")
    extra = "".join(f"&{key}={value}" for key, value in filters.items())
    following = f"/api/v1/{name}?page={page + 1}&page_size={size}{extra}" if page < last else None
    head = {"count": len(rows), "page": page, "page_size": size, "next": following}
    lines = [f"  {_dump(row)}" for row in rows[(page - 1) * size : page * size]]
    return _dump(head)[:-1] + ', "results": [\n' + ",\n".join(lines) + "\n]}"


def patch(world: World, path: str, body: Mapping[str, Any]) -> str:
    """Change fields of one object.

    Raises:
        Refused: the status line and body of an error answer.
    """
    name, table, number = _resource(world, path)
    if number is None:
        raise _error(405, f"PATCH needs an id: /api/v1/{name}/ID")
    row = _row(table, path, number)
    _check_fields(table, body)
    row.update(body)
    world.database.wal_position += 8192
    return _dump(row)


def post(world: World, path: str, body: Mapping[str, Any]) -> str:
    """Create one object.

    Raises:
        Refused: the status line and body of an error answer.
    """
    name, table, number = _resource(world, path)
    if number is not None:
        raise _error(405, "POST goes to the collection")
    _check_fields(table, body)
    if name == "vlans" and any(r["vid"] == body.get("vid") and r["site"] == body.get("site") for r in table.rows):
        raise _error(409, f"vlan {body.get('vid')} already exists at {body.get('site')}")
    row = {**dict.fromkeys(table.columns), "id": max((item["id"] for item in table.rows), default=0) + 1, **body}
    table.rows.append(row)
    world.database.wal_position += 8192
    return _dump(row)


def _resource(world: World, path: str) -> tuple[str, Table, int | None]:
    if not api_is_up(world):
        raise Refused("HTTP 502\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>")
    if "?" in path:
        raise _error(400, "give parameters in 'query', not in the path")
    match = re.fullmatch(r"/api/v1/(\w+)(?:/(\d+))?/?", path)
    if match is None or match[1] not in world.database.tables:
        known = [f"/api/v1/{name}" for name in world.database.tables]
        raise _error(404, f"no such resource: {path}", resources=known)
    return match[1], world.database.tables[match[1]], int(match[2]) if match[2] else None


def _row(table: Table, path: str, number: int) -> dict[str, Any]:
    for row in table.rows:
        if row["id"] == number:
            return row
    raise _error(404, f"no such object: {path}")


def _check_fields(table: Table, body: Mapping[str, Any]) -> None:
    for key, value in body.items():
        if key not in table.columns or key == "id":
            fields = [name for name in table.columns if name != "id"]
            raise _error(400, f"unknown field '{key}'", allowed=fields)
        kind = {"integer": int, "boolean": bool}.get(table.columns[key], str)
        if value is not None and type(value) is not kind:
            raise _error(400, f"field '{key}' must be {table.columns[key]}")


def _positive(query: Mapping[str, Any], key: str, default: int) -> int:
    value = query.get(key, default)
    if not re.fullmatch(r"[1-9]\d{0,5}", str(value)) or isinstance(value, bool):
        raise _error(400, f"{key} must be a positive integer, got {json.dumps(value)}")
    return int(value)


def _same(stored: Any, wanted: Any) -> bool:
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return str(stored).lower() == str(wanted).lower()
    return str(stored) == str(wanted) if stored is not None else wanted in (None, "null", "")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_REASONS = {400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict"}


def _error(status: int, message: str, **more: Any) -> Refused:
    return Refused(f"HTTP {status} {_REASONS[status]}\n{_dump({'error': message, **more})}")
