"""Reads exported files with each of the tools that docs/export.md names, and compares every row with the lines of JSON."""

import base64
import datetime
import glob
import gzip
import hashlib
import json
import os
import sys

import duckdb
import pandas
import polars
import pyarrow.dataset

ROOT = sys.argv[1]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
LISTS = ["authorizers", "arguments", "arguments_binary", "payload_signatures", "envelope_signatures"]


def text(data):
    try:
        found = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in found else found


def micros(rfc3339):
    whole, _, fraction = rfc3339[:-1].partition(".")
    moment = datetime.datetime.fromisoformat(whole + "+00:00")
    return int((moment - EPOCH).total_seconds()) * 1_000_000 + int(fraction.ljust(9, "0")[:6])


def signature(given):
    extension = given.get("extension_data")
    return {
        "address": given["address"],
        "key_index": int(given["key_index"]),
        "signature": base64.b64decode(given["signature"]),
        "extension_data": None if extension is None else base64.b64decode(extension),
    }


def expected(line):
    body = line["transaction"]
    script = base64.b64decode(body["script"])
    arguments = [base64.b64decode(each) for each in body["arguments"]]
    are_texts = all(text(each) is not None for each in arguments)
    key = body["proposal_key"]
    return {
        "id": body["id"],
        "height": line["height"],
        "block_id": line["block_id"],
        "timestamp": micros(line["timestamp"]),
        "collection_id": line["collection_id"],
        "collection_index": line["collection_index"],
        "transaction_index": line["transaction_index"],
        "payer": body["payer"],
        "proposer": key["address"],
        "proposer_key_index": int(key["key_index"]),
        "proposer_sequence_number": int(key["sequence_number"]),
        "authorizers": body["authorizers"],
        "reference_block_id": body["reference_block_id"],
        "gas_limit": int(body["gas_limit"]),
        "script": text(script),
        "script_binary": script if text(script) is None else None,
        "script_sha256": hashlib.sha256(script).hexdigest(),
        "arguments": [text(each) for each in arguments] if are_texts else None,
        "arguments_binary": None if are_texts else arguments,
        "payload_signatures": [signature(each) for each in body["payload_signatures"]],
        "envelope_signatures": [signature(each) for each in body["envelope_signatures"]],
    }


def plain(value):
    """What a reader gives, without the types that are its own."""
    if isinstance(value, (pandas.Timestamp, datetime.datetime)):
        return round((value - EPOCH) / datetime.timedelta(microseconds=1))
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "tolist") and not isinstance(value, (bytes, str)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, float) and value != value:
        return None
    return None if value is pandas.NA or value is pandas.NaT else value


def from_csv(row):
    """A row of CSV, all of it text."""
    # Not all readers tell null from an empty text: of two columns one is null, and which is known by the other.
    read = {name: "" if value is None else value for name, value in row.items()}
    for name, other in [("script", "script_binary"), ("arguments", "arguments_binary")]:
        read[other if read[other] == "" else name] = None
    for name in ["height", "collection_index", "transaction_index", "proposer_key_index", "proposer_sequence_number", "gas_limit"]:
        read[name] = int(read[name])
    read["timestamp"] = micros(read["timestamp"])
    for name in LISTS:
        read[name] = None if read[name] is None else json.loads(read[name])
    if read["script_binary"] is not None:
        read["script_binary"] = base64.b64decode(read["script_binary"])
    if read["arguments_binary"] is not None:
        read["arguments_binary"] = [base64.b64decode(each) for each in read["arguments_binary"]]
    for name in ["payload_signatures", "envelope_signatures"]:
        read[name] = [signature({k: v for k, v in each.items() if v is not None}) for each in read[name]]
    return read


def place(row):
    return (row["height"], row["collection_index"], row["transaction_index"])


def compare(reader, rows):
    rows = sorted(rows, key=place)
    assert len(rows) == len(wanted), f"{reader}: {len(rows)} rows, not {len(wanted)}"
    for got, want in zip(rows, wanted):
        for name, value in want.items():
            assert got[name] == value, f"{reader}: {name} of {want['id']}: {got[name]!r}, not {value!r}"
    print(f"{reader}: {len(rows)} rows, all equal")


with open(os.path.join(ROOT, "reference.ndjson"), encoding="utf-8") as lines:
    reference = [json.loads(line) for line in lines]
wanted = sorted((expected(line) for line in reference if line["kind"] == "transaction"), key=place)

for folder in sorted(os.listdir(ROOT)):
    files = os.path.join(ROOT, folder, "transactions")
    if folder.startswith("parquet"):
        pattern = os.path.join(files, "*.parquet")
        frame = pandas.read_parquet(files, dtype_backend="pyarrow")
        compare(f"pandas, {folder}", [plain(row) for row in frame.to_dict("records")])
        compare(f"pyarrow, {folder}", [plain(row) for row in pyarrow.dataset.dataset(files).to_table().to_pylist()])
        compare(f"polars, {folder}", [plain(row) for row in polars.read_parquet(pattern).to_dicts()])
        relation = duckdb.sql(f"from '{pattern}'")
        compare(f"DuckDB, {folder}", [plain(dict(zip(relation.columns, row))) for row in relation.fetchall()])
    elif folder.startswith("csv"):
        names = sorted(glob.glob(os.path.join(files, "*")))
        frames = [pandas.read_csv(name, dtype=str, keep_default_na=False, na_values=[], lineterminator="\n") for name in names]
        compare(f"pandas, {folder}", [from_csv(row) for row in pandas.concat(frames).to_dict("records")])
        # polars reads no zstd.
        if not folder.endswith("zstd"):
            frames = [polars.read_csv(name, infer_schema=False) for name in names]
            compare(f"polars, {folder}", [from_csv(row) for row in polars.concat(frames).to_dicts()])
    elif folder.startswith("ndjson"):
        names = sorted(glob.glob(os.path.join(ROOT, folder, "lines", "*")))
        together = "".join(gzip.open(name, "rt", encoding="utf-8", newline="").read() for name in names)
        assert [json.loads(line) for line in together.splitlines()] == reference[:-1], f"{folder} differs"
        print(f"lines, {folder}: {len(reference) - 1}, all equal")
