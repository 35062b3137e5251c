"""Modules of the page that are served as one file, each still there only once."""

import pytest

from agent_fabric.interfaces.http.page.assets import join_modules, modules_of

FILES = {
    "main.js": b'import { App } from "./view/app.js";\nApp();\n',
    "view/app.js": b"""import { html as made, use } from "../vendor/lib.js";
import * as words from "../model/words.js";

/** @param {import("./turn.js").Turn} turn */
export function App(turn) {
  return [made, use, words, turn, import("./turn.js"), import("../drawers/keys.js")];
}
export const NAME = "app";
""",
    "model/words.js": b"export const COUNT = 1;\nexport class Word {}\nexport async function later() {}\n",
    "vendor/lib.js": b"const a=1;function b(){}export{a as html,b as use};",
    "view/turn.js": b"""import { html } from "../vendor/lib.js";
import { Mark } from "./mark.js";
export function Turn() {
  return [html, Mark];
}
""",
    "view/mark.js": b"export const Mark = 1;\n",
    "drawers/keys.js": b"""import { html } from "../vendor/lib.js";
import { Mark as Sign } from "../view/mark.js";
import { Row } from "./row.js";
export const Keys = [html, Sign, Row];
""",
    "drawers/row.js": b"export const Row = 1;\n",
    "style.css": b"export {}",
}


def served() -> dict[str, str]:
    return {name: content.decode() for name, content in join_modules(FILES, ["main.js", "view/turn.js"]).items()}


def test_modules_come_after_what_they_import() -> None:
    assert list(modules_of(FILES, "main.js")) == ["vendor/lib.js", "model/words.js", "view/app.js", "main.js"]


def test_a_bundle_holds_its_modules_and_they_are_served_nowhere_else() -> None:
    assert set(served()) == {"main.js", "view/turn.js", "drawers/keys.js", "drawers/row.js", "style.css"}
    first = served()["main.js"]
    assert "const { html: made, use } = $0;" in first
    assert "const words = $1;" in first
    assert "return { html: a, use: b };" in first
    assert "return { COUNT, Word, later };" in first
    assert "\nexport function" not in first
    assert 'export { $0 as "vendor/lib.js", $1 as "model/words.js", $2 as "view/app.js", $3 as "main.js" };' in first
    assert served()["style.css"] == "export {}"


def test_what_is_loaded_later_is_found_from_the_bundle() -> None:
    first = served()["main.js"]
    assert 'import("./view/turn.js"), import("./drawers/keys.js")' in first
    assert '@param {import("./turn.js").Turn}' in first, "a type in a comment"


def test_other_files_import_a_module_from_its_bundle() -> None:
    turn, keys = served()["view/turn.js"], served()["drawers/keys.js"]
    assert turn.startswith('import { "vendor/lib.js" as $vendor_lib_js } from "../main.js";\n')
    assert "export const { Turn } = $1;" in turn
    assert keys.splitlines() == [
        'import { "vendor/lib.js" as $vendor_lib_js } from "../main.js"; const { html } = $vendor_lib_js;',
        'import { "view/mark.js" as $view_mark_js } from "../view/turn.js"; const { Mark: Sign } = $view_mark_js;',
        'import { Row } from "./row.js";',
        "export const Keys = [html, Sign, Row];",
    ]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"model/words.js": b'import { App } from "../view/app.js";\n'}, "import each other"),
        ({"model/words.js": b"export default 1;\n"}, "export default 1"),
        ({"model/words.js": b'export * from "./more.js";\n'}, "more.js"),
        ({"model/words.js": b'import "./more.js";\n'}, "more.js"),
        ({"model/words.js": b'const later = () => import("../view/app.js");\n'}, "which main.js holds"),
    ],
)
def test_what_is_not_understood_is_not_served(changed: dict[str, bytes], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        join_modules(FILES | changed, ["main.js", "view/turn.js"])
