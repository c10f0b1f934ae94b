"""Times as devices and hosts write them, without the locale's month names."""

from __future__ import annotations

from datetime import UTC, datetime

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

START = int(datetime(2026, 3, 2, 6, 40, tzinfo=UTC).timestamp())
"""When every laboratory begins."""


def _utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)


def device_time(seconds: int) -> str:
    """`Mar  2 06:40:07` as routers log it."""
    moment = _utc(seconds)
    return f"{_MONTHS[moment.month - 1]} {moment.day:2d} {moment:%H:%M:%S}"


def device_clock(seconds: int) -> str:
    """`06:40:07.000 UTC Mon Mar 2 2026`."""
    moment = _utc(seconds)
    return f"{moment:%H:%M:%S}.000 UTC {_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day} {moment.year}"


def iso_time(seconds: int) -> str:
    """`2026-03-02 06:40:07+00`, as PostgreSQL writes it."""
    return f"{_utc(seconds):%Y-%m-%d %H:%M:%S}+00"


def unit_time(seconds: int) -> str:
    """`Mon 2026-03-02 06:40:07 UTC`, as systemctl writes it."""
    moment = _utc(seconds)
    return f"{_DAYS[moment.weekday()]} {moment:%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: int) -> str:
    """`2 weeks, 3 days, 4 hours, 5 minutes`."""
    minutes = seconds // 60
    parts = []
    for name, size in (("week", 10080), ("day", 1440), ("hour", 60), ("minute", 1)):
        count, minutes = divmod(minutes, size)
        if count:
            parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    return ", ".join(parts) or "0 minutes"


def short_duration(seconds: int) -> str:
    """`1h 4min`, as systemctl writes it."""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} days" if days > 1 else "1 day"
    if hours:
        return f"{hours}h {minutes}min"
    return f"{minutes}min {seconds}s" if minutes else f"{seconds}s"
