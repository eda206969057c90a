"""A local server for one data set of the Hugging Face hub, so that a task can load it by name."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from support.serving import QuietHandler, serve


@contextmanager
def hub(name: str, folder: Path) -> Iterator[str]:
    """Serve the files of a folder as the data set `name`; yield the URL for ``HF_ENDPOINT``."""
    files = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    contents = {file: hashlib.sha1(path.read_bytes()).hexdigest() for file, path in files.items()}
    revision = hashlib.sha1(json.dumps(contents).encode()).hexdigest()
    api, raw = f"/api/datasets/{name}", f"/datasets/{name}/resolve/"

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if path.startswith(raw):
                file = files.get(path.removeprefix(raw).partition("/")[2])
                return self._send(file.read_bytes() if file else None)
            if path.startswith(f"{api}/tree/"):
                return self._send(json.dumps([entry(file) for file in files]).encode())
            if path == api or path.startswith(f"{api}/revision/"):
                siblings = [{"rfilename": file} for file in files]
                return self._send(
                    json.dumps({"id": name, "sha": revision, "siblings": siblings}).encode()
                )
            return self._send(None)

        do_HEAD = do_GET

        def do_POST(self) -> None:  # paths-info
            wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["paths"]
            self._send(json.dumps([entry(file) for file in files if file in wanted]).encode())

        def _send(self, body: bytes | None) -> None:
            self.send_response(404 if body is None else 200)
            body = body or b""
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", revision)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def entry(file: str) -> dict[str, object]:
        return {
            "type": "file",
            "path": file,
            "size": files[file].stat().st_size,
            "oid": contents[file],
        }

    with serve(Handler) as url:
        yield url
