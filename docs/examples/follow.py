"""Follows the index: prints each height, and the payer of each of its transactions.

    python3 follow.py [BASE_URL] [FROM_HEIGHT] [COUNT]

Needs nothing but Python 3.8 or later.
"""

import http.client
import json
import sys
import time
import urllib.request

arguments = dict(enumerate(sys.argv[1:]))
base_url = arguments.get(0, "http://127.0.0.1:7180")
start = arguments.get(1)
left = int(arguments[2]) if 2 in arguments else None
RETRY_SECONDS = 1


def show(height):
    """The whole height, or nothing of it: where an answer is cut off, the height comes again."""
    lines = [f"{height['height']} {height['block_id']}"]
    for collection in height["collections"]:
        address = f"{base_url}/v1/collections/{collection['collection_id']}?expand=transactions"
        with urllib.request.urlopen(address, timeout=30) as response:
            lines += [f"  {one['id']} {one['payer']}" for one in json.load(response)["transactions"]]
    print(*lines, sep="\n", flush=True)


def events(last_event_id):
    """The events of one stream, each a dictionary of its fields. A comment every 15 seconds keeps it alive."""
    request = urllib.request.Request(f"{base_url}/events" + (f"?from={start}" if start else ""))
    if last_event_id:
        request.add_header("Last-Event-ID", last_event_id)
    with urllib.request.urlopen(request, timeout=60) as stream:
        fields = {}
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif fields:
                yield fields
                fields = {}


last_event_id = None
while left != 0:
    try:
        for event in events(last_event_id):
            if event.get("event") == "end":
                raise OSError(event["data"])
            if event.get("event") == "rewind":  # Forget what is above that height.
                print("rewind:", event["data"])
            if event.get("event") != "height":
                continue
            show(json.loads(event["data"]))
            last_event_id = event["id"]
            if left is not None:
                left -= 1
                if left == 0:
                    break
    except (OSError, http.client.HTTPException) as error:
        print(f"{error}; again in {RETRY_SECONDS} s", file=sys.stderr)
        time.sleep(RETRY_SECONDS)
