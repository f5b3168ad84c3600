import sys

# `match` is a statement from Python 3.10 on.
collect_ignore = ["test_match.py"] if sys.version_info < (3, 10) else []
