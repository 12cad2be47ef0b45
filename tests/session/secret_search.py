"""Search for a secret in the files of a session."""

from __future__ import annotations

import base64
import json
from pathlib import Path


def files_containing(folder: Path, secret: str) -> list[str]:
    """Return the names of files that contain the secret as text, as a JSON string, or within base64 data at any alignment."""
    data = secret.encode()
    forms = [data, json.dumps(secret)[1:-1].encode()]
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + data)
        forms.append(coded[4 if shift else 0 : -4])  # the part that does not depend on neighbouring bytes
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(form in path.read_bytes() for form in forms)]
