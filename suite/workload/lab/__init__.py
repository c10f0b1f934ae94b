"""A small laboratory network that exists only in memory: devices, hosts and a database that answer tool calls."""
