"""Loads the lines of `export --follow` into an SQLite database, each block exactly once:

    flow-collection-indexer export --follow $(python3 load.py DATABASE begin) | python3 load.py DATABASE

`begin` prints where the export has to begin: at the newest block that DATABASE holds, so that loading sees whether the index still
has it. Run the whole line again whenever it ends. Needs nothing but Python 3.8 or later.
"""

import json
import sqlite3
import sys

STEP_BACK = 100  # Heights that are forgotten at a time, and loaded again where the index still has them.

database = sqlite3.connect(sys.argv[1])
database.executescript(
    """
    CREATE TABLE IF NOT EXISTS block (height INTEGER PRIMARY KEY, id TEXT NOT NULL, line TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS placed (height INTEGER, place INTEGER, id TEXT, payer TEXT, line TEXT, PRIMARY KEY (height, place));
    """
)


def begin():
    (newest,) = database.execute("SELECT max(height) FROM block").fetchone()
    return "" if newest is None else f"--from {newest}"


def forget(height):
    """Without what was loaded from this height on."""
    with database:
        database.execute("DELETE FROM block WHERE height >= ?", [height])
        database.execute("DELETE FROM placed WHERE height >= ?", [height])


def load(lines):
    for line in lines:
        if not line.endswith("\n"):
            return  # The export was cut off: the next one sends this block again.
        block = json.loads(line)
        if block["kind"] == "end":
            return
        height, block_id = block["height"], block["block_id"]
        count = sum(collection["transaction_count"] for collection in block["collections"])
        rows = [(place, next(lines, "")) for place in range(count)]
        if any(not row.endswith("\n") for _, row in rows):
            return
        (held,) = database.execute("SELECT max(id) FROM block WHERE height = ?", [height]).fetchone()
        if held == block_id:
            continue
        if held is not None:
            forget(height - STEP_BACK + 1)
            sys.exit(f"The index was rewound below height {height}: run this again to go back further.")
        with database:  # The rows and the place to go on from are one transaction.
            database.execute("INSERT INTO block VALUES (?, ?, ?)", [height, block_id, line])
            for place, row in rows:
                transaction = json.loads(row)["transaction"]
                database.execute(
                    "INSERT INTO placed VALUES (?, ?, ?, ?, ?)",
                    [height, place, transaction["id"], transaction["payer"], row],
                )


if sys.argv[2:] == ["begin"]:
    print(begin())
else:
    load(sys.stdin)
