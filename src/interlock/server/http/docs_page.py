"""A readable page of the OpenAPI document: plain HTML, one style within it, no scripts, nothing from anywhere else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from typing import Final

import msgspec

from interlock.vocabulary.events.registry import Json

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24;
  background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid #d0d7de; }
h3 { font: 600 1rem/1.4 ui-monospace, monospace; margin: 2rem 0 0.3rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem 0.25rem 0; border-bottom: 1px solid #eaeef2; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.85rem; }
pre { background: #f6f8fa; padding: 0.7rem; overflow-x: auto; }
.method { display: inline-block; min-width: 4rem; color: #0550ae; }
@media (prefers-color-scheme: dark) {
  body { color: #e6edf3; background: #0d1117; } pre { background: #161b22; } .method { color: #79c0ff; }
  h2, th, td { border-color: #30363d; } a { color: #79c0ff; }
}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
DOCS_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; base-uri 'none'"


def render_page(document: dict[str, Json]) -> str:
    """The page."""
    info, paths = _object(document.get("info")), _object(document.get("paths"))
    schemas = _object(_object(document.get("components")).get("schemas"))
    title = escape(f"{info.get('title')} {info.get('version')}")
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>',
        f"<h1>{title}</h1><p>{_prose(info.get('description'))}</p>",
        '<p>The same for programs: <a href="/api/openapi.json">/api/openapi.json</a></p><h2>Operations</h2>',
        *(
            part
            for path, methods in paths.items()
            for method, operation in _object(methods).items()
            for part in _operation(path, method, _object(operation))
        ),
        "<h2>Schemas</h2>",
        *(part for name, schema in schemas.items() for part in _schema(name, _object(schema))),
        "</body></html>",
    ]
    return "\n".join(parts)


def _operation(path: str, method: str, operation: dict[str, Json]) -> Iterator[str]:
    name = escape(str(operation.get("operationId")))
    yield f'<h3 id="{name}"><span class="method">{method.upper()}</span> {escape(path)}</h3>'
    yield f"<p>{_prose(operation.get('description'))}</p>"
    parameters = [_object(one) for one in _list(operation.get("parameters"))]
    if parameters:
        yield "<table><tr><th>Parameter</th><th>In</th><th>What</th></tr>"
        for one in parameters:
            kind = _kind(_object(one.get("schema")))
            yield f"<tr><td><code>{escape(str(one.get('name')))}</code></td><td>{escape(str(one.get('in')))}</td>"
            yield f"<td>{kind} {_prose(one.get('description'))}</td></tr>"
        yield "</table>"
    body = _object(_object(_object(operation.get("requestBody")).get("content")).get("application/json"))
    if body:
        yield f"<p>Body: {_kind(_object(body.get('schema')))}</p>"
    yield "<table><tr><th>Status</th><th>Answer</th></tr>"
    for status, answer in _object(operation.get("responses")).items():
        yield f"<tr><td>{escape(status)}</td><td>{_answer(_object(answer))}</td></tr>"
    yield "</table>"


def _answer(answer: dict[str, Json]) -> str:
    content = _object(answer.get("content"))
    kinds = (f"{_kind(_object(_object(one).get('schema')))} ({escape(media)})" for media, one in content.items())
    return ": ".join((escape(str(answer.get("description", ""))), *kinds))


def _schema(name: str, schema: dict[str, Json]) -> Iterator[str]:
    yield f'<h3 id="schema-{escape(name)}">{escape(name)}</h3><p>{_prose(schema.get("description"))}</p>'
    if "enum" in schema:
        yield f"<p>One of {', '.join(f'<code>{escape(str(one))}</code>' for one in _list(schema['enum']))}.</p>"
        return
    needed = _list(schema.get("required"))
    yield "<table><tr><th>Field</th><th>What</th></tr>"
    for field, kind in _object(schema.get("properties")).items():
        rest = "" if field in needed else ", optional"
        yield f"<tr><td><code>{escape(field)}</code></td><td>{_kind(_object(kind))}{rest}</td></tr>"
    yield "</table>"


def _kind(schema: dict[str, Json]) -> str:
    """A schema in one line, with links to those that have a name."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(_object(one)) for one in _list(schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(_object(schema.get('items')))}" if "items" in schema else "list"
    rest = {key: value for key, value in schema.items() if key not in ("description", "title", "default")}
    return f"<code>{escape(msgspec.json.encode(rest).decode())}</code>" if rest else "anything"


def _prose(text: Json) -> str:
    """Text with its `code` marked."""
    pieces = escape(str(text or "")).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
