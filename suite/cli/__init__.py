"""The command line: each command's file parses, calls the library and prints."""
