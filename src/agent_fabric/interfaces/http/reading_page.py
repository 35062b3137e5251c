"""`/docs` and `/redoc`: the description of the API for people, in one page that loads nothing from elsewhere.

FastAPI's own pages fetch their programs from the network: they stay empty on a machine without one, and what
answers there could read a token that is pasted into them.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from starlette.responses import Response

from agent_fabric.interfaces.http.routing import HIDDEN, Open, Routes

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff; }
h2 { margin-top: 2.5rem; text-transform: capitalize; }
details { margin: .4rem 0; }
summary { cursor: pointer; padding: .4rem .6rem; border-radius: .3rem; background: #f1f2f4; }
summary code { font-weight: 600; }
.scope { float: right; opacity: .7; font-size: .85em; }
details > div { padding: .2rem 1rem; }
pre { overflow-x: auto; padding: .6rem; border-radius: .3rem; background: #f7f7f8; font-size: .85em; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #16181c; } pre, summary { background: #22252b; } }
"""

_PROGRAM: Final = """
const made = (tag, text, inside = []) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...inside);
  return node;
};
const shown = value => made("pre", JSON.stringify(value, null, 2));
const resolved = (value, api, depth = 0) => {
  if (Array.isArray(value)) return value.map(item => resolved(item, api, depth));
  if (value === null || typeof value !== "object") return value;
  if (value.$ref) {
    const name = value.$ref.split("/").pop();
    return depth > 3 ? name : resolved(api.components.schemas[name] ?? name, api, depth + 1);
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, api, depth)]));
};
const schemas = (content, api) =>
  Object.values(content ?? {}).filter(each => each.schema).map(each => shown(resolved(each.schema, api)));
const operation = (path, method, told, api) => {
  const scope = made("span", told["x-scope"]);
  scope.className = "scope";
  const head = made("summary", "", [made("code", `${method.toUpperCase()} ${path}`), ` ${told.summary ?? ""} `, scope]);
  const body = made("div", "", [made("p", told.description ?? "")]);
  for (const each of told.parameters ?? [])
    body.append(made("p", "", [made("code", `${each.in}: ${each.name}`), ` ${each.description ?? ""}`]));
  if (told.requestBody) body.append(made("h4", "Body"), ...schemas(told.requestBody.content, api));
  for (const [status, answer] of Object.entries(told.responses ?? {}))
    if (status < "300") body.append(made("h4", `${status} ${answer.description}`), ...schemas(answer.content, api));
  return made("details", "", [head, body]);
};
const show = api => {
  document.title = `${api.info.title} ${api.info.version}`;
  const page = document.querySelector("main");
  const paragraphs = api.info.description.trim().split("\\n\\n");
  page.replaceChildren(made("h1", document.title), ...paragraphs.map(text => made("p", text)));
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, told] of Object.entries(methods)) {
      if (told.operationId.endsWith("_below_prefix")) continue;
      const tag = (told.tags ?? ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(path, method, told, api));
    }
  for (const [tag, operations] of groups) page.append(made("h2", tag), ...operations);
};
fetch("/openapi.json").then(answer => answer.json()).then(show);
"""

PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>agent-fabric</title>
<style>{_STYLE}</style>
<main><p>The description is in <a href="/openapi.json">/openapi.json</a>; this page shows it with JavaScript.</p></main>
<script>{_PROGRAM}</script>
</html>
""".encode()


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS: Final = {
    "content-security-policy": (
        f"default-src 'none'; connect-src 'self'; script-src {_hash(_PROGRAM)}; style-src {_hash(_STYLE)}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
}
"""Let a browser run this program, and nothing else."""


def add_documentation(routes: Routes, describe: Callable[[], Mapping[str, Any]]) -> None:
    """Add the description of the API and the pages that show it.

    The description is written once: it takes long, and anonymous requests may ask for it.
    """

    @cache
    def encode_description() -> bytes:
        return json.dumps(describe(), ensure_ascii=False, separators=(",", ":")).encode()

    async def description() -> Response:
        return Response(encode_description(), media_type="application/json")

    async def page() -> Response:
        return Response(PAGE, media_type="text/html", headers=HEADERS)

    for path, endpoint in {"/openapi.json": description, "/docs": page, "/redoc": page}.items():
        routes.get(path, Open.PUBLIC, HIDDEN, head=True)(endpoint)
