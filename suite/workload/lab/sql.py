"""A small part of SQL over the inventory database, with PostgreSQL's table layout and error texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from suite.workload.lab.clock import iso_time, short_duration
from suite.workload.lab.model import Database, Host, Table, World
from suite.workload.lab.result import Refused

_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|(\d+(?:\.\d+)?)|([A-Za-z_][\w.]*)|(<=|>=|<>|!=|[=<>(),*;]))")
_MAX_ROWS = 200
_REPLAY_BYTES_PER_SECOND = 2**24
_CATCHUP_BYTES = 2**26
Row = dict[str, Any]


def run_sql(world: World, host: Host, statement: str) -> str:
    """Run one statement on the PostgreSQL server of `host` and lay the answer out as psql does.

    Raises:
        Refused: the server's error text.
    """
    database = world.database
    service = host.services.get("postgresql")
    if service is None or service.state != "active":
        raise Refused(
            f'psql: error: connection to server at "{host.name}" ({host.address}), port 5432 failed: '
            "Connection refused\n"
            "\tIs the server running on that host and accepting TCP/IP connections?"
        )
    parser = _Parser(statement)
    verb = parser.take_word()
    if verb == "show":
        return _show(database, parser)
    if verb == "select":
        return _select(world, host, parser)
    if verb in ("update", "insert", "delete"):
        if host.name == database.replica:
            raise Refused(f"ERROR:  cannot execute {verb.upper()} in a read-only transaction")
        database.wal_position += 8192
        return {"update": _update, "insert": _insert, "delete": _delete}[verb](database, parser)
    raise parser.error(0)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str
    position: int


class _Parser:
    def __init__(self, statement: str) -> None:
        self.statement = " ".join(statement.split())
        self._tokens: list[_Token] = []
        position = 0
        text = self.statement.rstrip("; ")
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(position)
            kind = ("string", "number", "word", "sign")[match.lastindex - 1 if match.lastindex else 0]
            self._tokens.append(_Token(match[match.lastindex or 0], kind, match.start(match.lastindex or 0)))
            position = match.end()
        self._next = 0

    def error(self, position: int | None = None) -> Refused:
        if position is None:
            if self._next >= len(self._tokens):
                return Refused(f"ERROR:  syntax error at end of input\nLINE 1: {self.statement}")
            position = self._tokens[self._next].position
        near = self.statement[position:].split(" ")[0] or self.statement[position:]
        return Refused(f'ERROR:  syntax error at or near "{near}"\n{self.pointer(position)}')

    def pointer(self, position: int) -> str:
        return f"LINE 1: {self.statement}\n{' ' * (8 + position)}^"

    def peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self) -> _Token:
        token = self.peek()
        if token is None:
            raise self.error()
        self._next += 1
        return token

    def take_word(self) -> str:
        token = self.peek()
        if token is None or token.kind != "word":
            raise self.error()
        self._next += 1
        return token.text.lower()

    def accept(self, *words: str) -> bool:
        ahead = self._tokens[self._next : self._next + len(words)]
        if [token.text.lower() for token in ahead] != list(words):
            return False
        self._next += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.error()

    def end(self) -> None:
        if self.peek() is not None:
            raise self.error()

    def value(self) -> Any:
        token = self.take()
        if token.kind == "string":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "number":
            return int(token.text) if token.text.isdigit() else token.text
        if token.text.lower() in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[token.text.lower()]
        self._next -= 1
        raise self.error()


def _lsn(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:08X}"


def _views(world: World, host: Host) -> dict[str, Table]:
    on_primary = host.name == world.database.primary
    replication = Table(
        columns=dict.fromkeys(
            ("application_name", "client_addr", "state", "sent_lsn", "replay_lsn", "replay_lag", "sync_state"), "text"
        )
    )
    replica = world.hosts[world.database.replica]
    if on_primary and replica.services["postgresql"].state == "active":
        replication.rows.append(_replication_row(world.database, replica))
    types = {"pid": "integer", "xact_start": "timestamp"}
    activity = Table(
        columns={
            name: types.get(name, "text") for name in ("pid", "usename", "client_addr", "state", "query", "xact_start")
        }
    )
    for backend in world.database.backends if on_primary else []:
        values = (backend.pid, backend.user, backend.client, backend.state, backend.query, iso_time(backend.started))
        activity.rows.append(dict(zip(activity.columns, values, strict=True)))
    return {"pg_stat_replication": replication, "pg_stat_activity": activity}


def _replication_row(database: Database, replica: Host) -> Row:
    lag = database.replica_lag_bytes
    seconds = lag // _REPLAY_BYTES_PER_SECOND
    return {
        "application_name": replica.name,
        "client_addr": replica.address,
        "state": "streaming" if lag < _CATCHUP_BYTES else "catchup",
        "sent_lsn": _lsn(database.wal_position),
        "replay_lsn": _lsn(database.wal_position - lag),
        "replay_lag": f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}",
        "sync_state": "async",
    }


def _table(world: World, host: Host, parser: _Parser) -> tuple[str, Table]:
    token = parser.take()
    tables = {**world.database.tables, **_views(world, host)}
    if token.text.lower() not in tables:
        raise Refused(f'ERROR:  relation "{token.text}" does not exist\n{parser.pointer(token.position)}')
    return token.text.lower(), tables[token.text.lower()]


def _column(parser: _Parser, token: _Token, columns: dict[str, str], table: str) -> str:
    name = token.text.lower()
    if name in columns:
        return name
    bare = name.split(".")[-1]
    if "." in name and bare in columns and name.split(".")[0] == table:
        return bare
    close = [item for item in columns if item.split(".")[-1].startswith(bare[:3]) or bare in item or item in bare]
    hint = f'\nHINT:  Perhaps you meant to reference the column "{table}.{close[0]}".' if close else ""
    raise Refused(f'ERROR:  column "{token.text}" does not exist\n{parser.pointer(token.position)}{hint}')


def _select(world: World, host: Host, parser: _Parser) -> str:
    if (special := _function(world, host, parser)) is not None:
        return special
    wanted: list[_Token] = []
    counting = ""
    while True:
        token = parser.take()
        if token.text.lower() == "count" and parser.accept("(", "*", ")"):
            counting = parser.take_word() if parser.accept("as") else "count"
        else:
            wanted.append(token)
        if not parser.accept(","):
            break
    parser.expect("from")
    name, table = _table(world, host, parser)
    columns, rows = dict(table.columns), list(table.rows)
    test = _where(parser, columns, name) if parser.accept("where") else None
    rows = [row for row in rows if test is None or test(row)]
    group = None
    if parser.accept("group", "by"):
        group = _column(parser, parser.take(), columns, name)
    chosen = (
        list(columns) if [token.text for token in wanted] == ["*"] else
        [_column(parser, token, columns, name) for token in wanted]
    )  # fmt: skip
    if counting:
        rows, chosen, columns = _count(rows, chosen, columns, group, counting)
    if parser.accept("order", "by"):
        token = parser.take()
        key = counting if token.text.lower() == counting else _column(parser, token, columns, name)
        rows = sorted(rows, key=lambda row: (row[key] is None, row[key]))
        if parser.accept("desc"):
            rows = rows[::-1]
        else:
            parser.accept("asc")
    limit = _MAX_ROWS
    if parser.accept("limit"):
        value = parser.value()
        if not isinstance(value, int):
            raise Refused(f"ERROR:  invalid input syntax for type bigint: {value!r}")
        limit = value
    parser.end()
    return layout(chosen, columns, [[row[column] for column in chosen] for row in rows[:limit]])


def _count(
    rows: list[Row], chosen: list[str], columns: dict[str, str], group: str | None, label: str
) -> tuple[list[Row], list[str], dict[str, str]]:
    if group is None:
        if chosen:
            raise Refused(
                f'ERROR:  column "{chosen[0]}" must appear in the GROUP BY clause or be used in an aggregate function'
            )
        return [{label: len(rows)}], [label], {label: "integer"}
    counts: dict[Any, int] = {}
    for row in rows:
        counts[row[group]] = counts.get(row[group], 0) + 1
    grouped: list[Row] = [{group: value, label: number} for value, number in counts.items()]
    return grouped, [group, label], {group: columns[group], label: "integer"}


def _function(world: World, host: Host, parser: _Parser) -> str | None:
    database = world.database
    if parser.accept("pg_terminate_backend", "("):
        pid = parser.value()
        parser.expect(")")
        found = [backend for backend in database.backends if backend.pid == pid]
        for backend in found:
            database.backends.remove(backend)
        label = "pg_terminate_backend"
        return layout([label], {label: "boolean"}, [[bool(found)]])
    if parser.accept("pg_is_in_recovery", "(", ")"):
        label = "pg_is_in_recovery"
        return layout([label], {label: "boolean"}, [[host.name == database.replica]])
    if parser.accept("version", "(", ")"):
        text = f"PostgreSQL {database.settings['server_version']} on x86_64-pc-linux-gnu, 64-bit"
        return layout(["version"], {"version": "text"}, [[text]])
    if parser.accept("pg_postmaster_start_time", "(", ")"):
        label = "pg_postmaster_start_time"
        service = host.services["postgresql"]
        return layout(
            [label, "up"], {label: "text", "up": "text"},
            [[iso_time(service.since), short_duration(world.now - service.since)]],
        )  # fmt: skip
    return None


def _where(parser: _Parser, columns: dict[str, str], table: str) -> Callable[[Row], bool]:
    tests = [_condition(parser, columns, table)]
    while parser.accept("and"):
        tests.append(_condition(parser, columns, table))
    return lambda row: all(test(row) for test in tests)


def _condition(parser: _Parser, columns: dict[str, str], table: str) -> Callable[[Row], bool]:
    column = _column(parser, parser.take(), columns, table)
    if parser.accept("is", "not", "null"):
        return lambda row: row[column] is not None
    if parser.accept("is", "null"):
        return lambda row: row[column] is None
    if parser.accept("in", "("):
        values = [parser.value()]
        while parser.accept(","):
            values.append(parser.value())
        parser.expect(")")
        return lambda row: row[column] in values
    if parser.accept("not", "like"):
        like = _like(parser.value(), ignore_case=False)
        return lambda row: row[column] is not None and not like.fullmatch(str(row[column]))
    for word in ("like", "ilike"):
        if parser.accept(word):
            pattern = _like(parser.value(), ignore_case=word == "ilike")
            return lambda row: row[column] is not None and pattern.fullmatch(str(row[column])) is not None
    operator = parser.take()
    value = _typed(parser.value(), columns[column], parser)
    compare = _OPERATORS.get(operator.text)
    if compare is None:
        raise parser.error(operator.position)
    return lambda row: row[column] is not None and compare(row[column], value)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def _typed(value: Any, kind: str, parser: _Parser) -> Any:
    if kind == "integer" and isinstance(value, str):
        if not value.isdigit():
            raise Refused(f'ERROR:  invalid input syntax for type integer: "{value}"')
        return int(value)
    if kind not in ("integer", "boolean") and isinstance(value, int) and not isinstance(value, bool):
        raise Refused(
            f"ERROR:  operator does not exist: {kind} = integer\n"
            "HINT:  No operator matches the given name and argument types. You might need to add explicit type casts."
        )
    if kind == "boolean" and isinstance(value, str):
        return value.lower() in ("t", "true", "yes", "on")
    return value


def _like(pattern: Any, *, ignore_case: bool) -> re.Pattern[str]:
    text = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in str(pattern))
    return re.compile(text, re.IGNORECASE | re.DOTALL if ignore_case else re.DOTALL)


def _update(database: Database, parser: _Parser) -> str:
    name, table = _own_table(database, parser)
    parser.expect("set")
    changes: Row = {}
    while True:
        column = _column(parser, parser.take(), table.columns, name)
        parser.expect("=")
        changes[column] = _typed(parser.value(), table.columns[column], parser)
        if not parser.accept(","):
            break
    test = _where(parser, table.columns, name) if parser.accept("where") else None
    parser.end()
    touched = [row for row in table.rows if test is None or test(row)]
    for row in touched:
        row.update(changes)
    return f"UPDATE {len(touched)}"


def _insert(database: Database, parser: _Parser) -> str:
    parser.expect("into")
    name, table = _own_table(database, parser)
    parser.expect("(")
    columns = [_column(parser, parser.take(), table.columns, name)]
    while parser.accept(","):
        columns.append(_column(parser, parser.take(), table.columns, name))
    parser.expect(")", "values", "(")
    values = [parser.value()]
    while parser.accept(","):
        values.append(parser.value())
    parser.expect(")")
    parser.end()
    if len(values) != len(columns):
        more = "expressions than target columns" if len(values) > len(columns) else "target columns than expressions"
        raise Refused(f"ERROR:  INSERT has more {more}")
    given = dict(zip(columns, values, strict=True))
    new_id = max((row["id"] for row in table.rows), default=0) + 1
    if name == "vlans" and any(r["vid"] == given.get("vid") and r["site"] == given.get("site") for r in table.rows):
        raise Refused(
            'ERROR:  duplicate key value violates unique constraint "vlans_vid_site_key"\n'
            f"DETAIL:  Key (vid, site)=({given.get('vid')}, {given.get('site')}) already exists."
        )
    table.rows.append({**dict.fromkeys(table.columns), "id": new_id, **given})
    return "INSERT 0 1"


def _delete(database: Database, parser: _Parser) -> str:
    parser.expect("from")
    name, table = _own_table(database, parser)
    parser.expect("where")
    test = _where(parser, table.columns, name)
    parser.end()
    kept = [row for row in table.rows if not test(row)]
    count = len(table.rows) - len(kept)
    table.rows[:] = kept
    return f"DELETE {count}"


def _own_table(database: Database, parser: _Parser) -> tuple[str, Table]:
    token = parser.take()
    if token.text.lower() not in database.tables:
        raise Refused(f'ERROR:  relation "{token.text}" does not exist\n{parser.pointer(token.position)}')
    return token.text.lower(), database.tables[token.text.lower()]


def _show(database: Database, parser: _Parser) -> str:
    name = parser.take_word()
    if name not in database.settings:
        raise Refused(f'ERROR:  unrecognized configuration parameter "{name}"')
    return layout([name], {name: "text"}, [[database.settings[name]]])


def layout(names: list[str], types: dict[str, str], rows: list[list[Any]]) -> str:
    """The aligned table of psql."""

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "t" if value else "f"
        return "" if value is None else str(value)

    cells = [[text(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(names)]
    lines = [" " + " | ".join(name.center(width) for name, width in zip(names, widths, strict=True))]
    lines.append("-" + "-+-".join("-" * width for width in widths) + "-")
    for row in cells:
        parts = [
            cell.rjust(width) if types[name] == "integer" else cell.ljust(width)
            for cell, width, name in zip(row, widths, names, strict=True)
        ]
        lines.append((" " + " | ".join(parts)).rstrip())
    return "\n".join([lines[0].rstrip(), *lines[1:], f"({len(rows)} row{'' if len(rows) == 1 else 's'})"])
