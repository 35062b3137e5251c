// Code in colours: a text and its language become a list of tokens. Their texts, joined, are the text; nothing is HTML.

/**
 * @typedef {"comment" | "string" | "number" | "keyword" | "name" | "add" | "del" | ""} Kind
 * @typedef {[Kind, string]} Token
 * @typedef {{comments: string, strings: string, words: Set<string>, names?: string, caseless?: boolean}} Language
 *
 * `comments`, `strings` and `names` are regular expressions; each takes time in proportion to what it matches.
 */

/** A longer text is shown without colours. */
export const MOST_CHARS = 30_000;

const NEVER = "(?!)";
const DOUBLE = String.raw`"(?:[^"\\\n]|\\[^])*"?`;
const SINGLE = String.raw`'(?:[^'\\\n]|\\[^])*'?`;
const BACKTICK = "`(?:[^`\\\\]|\\\\[^])*`?";
const C_COMMENTS = String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`;
const HASH = String.raw`#[^\n]*`;
const NUMBER = String.raw`\b(?:0[xXoObB][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*\b`;

/** @param {string} text */
const words = (text) => new Set(text.split(" "));

const C_WORDS = "break case const continue default do double else enum extern float for goto if int long register return short signed sizeof static struct switch typedef union unsigned void volatile while char bool true false class public private protected new delete try catch throw throws using namespace template this virtual override final import package extends implements interface null instanceof string var readonly abstract async await nullptr auto constexpr include define";

/** @type {Record<string, Language>} */
const LANGUAGES = {
  python: {
    comments: HASH,
    strings: String.raw`[rRbBuUfF]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${DOUBLE}|${SINGLE})`,
    words: words("and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield None True False self"),
    names: String.raw`@[\w.]+`,
  },
  javascript: {
    comments: C_COMMENTS,
    strings: `${DOUBLE}|${SINGLE}|${BACKTICK}`,
    words: words("abstract as async await break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in instanceof interface let namespace new null of private protected public readonly return set static super switch this throw true try type typeof undefined var void while with yield"),
  },
  json: { comments: C_COMMENTS, strings: DOUBLE, words: words("true false null") },
  shell: {
    comments: String.raw`(?:^|(?<=\s))#[^\n]*`,
    strings: `${DOUBLE}|'[^']*'?`,
    words: words("if then else elif fi for in do done while until case esac function return export local set unset exit sudo cd echo source"),
    names: String.raw`\$\{?[\w@#?*!-]+\}?|(?<=\s)--?[\w-]+`,
  },
  yaml: { comments: String.raw`(?:^|(?<=\s))#[^\n]*`, strings: `${DOUBLE}|${SINGLE}`, words: words("true false null yes no on off"), names: String.raw`[\w.\/-]{1,80}(?=:(?:\s|$))` },
  toml: { comments: String.raw`[#;][^\n]*`, strings: `"""[^]*?(?:"""|$)|${DOUBLE}|${SINGLE}`, words: words("true false"), names: String.raw`(?:^|(?<=\n))\[[^\]\n]*\]*|(?:^|(?<=\n))[\w.-]+(?=\s*=)` },
  sql: {
    comments: String.raw`--[^\n]*|\/\*[^]*?(?:\*\/|$)`,
    strings: String.raw`'(?:[^']|'')*'?|"[^"\n]*"?`,
    words: words("add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists explain foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then transaction union unique update using values view when where with"),
    caseless: true,
  },
  go: { comments: C_COMMENTS, strings: `${DOUBLE}|${SINGLE}|${BACKTICK}`, words: words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int error bool byte") },
  rust: { comments: C_COMMENTS, strings: String.raw`b?r?#{0,3}"(?:[^"\\]|\\[^])*"?|'(?:[^'\\\n]|\\[^])'`, words: words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while"), names: String.raw`#!?\[[^\]\n]*\]|\b\w+!` },
  c: { comments: C_COMMENTS, strings: `${DOUBLE}|${SINGLE}`, words: words(C_WORDS), names: String.raw`(?:^|(?<=\n))#\s*\w+` },
  css: { comments: String.raw`\/\*[^]*?(?:\*\/|$)`, strings: `${DOUBLE}|${SINGLE}`, words: words("important"), names: String.raw`@[\w-]+|--[\w-]+|[a-z-]{2,40}(?=:[^\n:;]{1,80};)` },
  html: { comments: String.raw`<!--[^]*?(?:-->|$)`, strings: `${DOUBLE}|${SINGLE}`, words: new Set(), names: String.raw`<\/?[\w:-]*|\/?>` },
};

const ALIASES = /** @type {Record<string, string>} */ ({
  py: "python", python3: "python", js: "javascript", jsx: "javascript", ts: "javascript", tsx: "javascript", typescript: "javascript", mjs: "javascript", json5: "json", jsonc: "json", jsonl: "json", sh: "shell", bash: "shell", zsh: "shell",
  console: "shell", dockerfile: "shell", makefile: "shell", yml: "yaml", ini: "toml", cfg: "toml", conf: "toml", rs: "rust", golang: "go", "c++": "c", cpp: "c", h: "c", java: "c", cs: "c", csharp: "c", kotlin: "c", swift: "c", php: "c", scss: "css", xml: "html", svg: "html", psql: "sql", sqlite: "sql", patch: "diff",
});

/** @type {Map<string, RegExp>} */
const compiled = new Map();

/** @param {string} name @returns {{language: Language, pattern: RegExp} | null} */
function lookUp(name) {
  const known = name.toLowerCase();
  const key = Object.hasOwn(ALIASES, known) ? ALIASES[known] : known;
  if (!Object.hasOwn(LANGUAGES, key)) return null;
  const language = LANGUAGES[key];
  let pattern = compiled.get(key);
  if (pattern === undefined) {
    pattern = new RegExp(`(${language.comments || NEVER})|(${language.strings})|(${language.names ?? NEVER})|(${NUMBER})|([A-Za-z_]\\w*)|[^]`, "gy");
    compiled.set(key, pattern);
  }
  return { language, pattern };
}

/**
 * Return a text as tokens.
 *
 * @param {string} text
 * @param {string} name The language, as it stands behind the fence.
 * @returns {Token[]}
 */
export function tokensOf(text, name) {
  if (text.length > MOST_CHARS) return [["", text]];
  if ((ALIASES[name.toLowerCase()] ?? name.toLowerCase()) === "diff") return diffTokens(text);
  const found = lookUp(name);
  if (found === null) return [["", text]];
  /** @type {Token[]} */
  const tokens = [];
  found.pattern.lastIndex = 0;
  for (const match of text.matchAll(found.pattern)) push(tokens, kindOf(match, found.language), match[0]);
  return tokens;
}

/** @param {RegExpMatchArray} match @param {Language} language @returns {Kind} */
function kindOf(match, language) {
  if (match[1]) return "comment";
  if (match[2]) return "string";
  if (match[3]) return "name";
  if (match[4]) return "number";
  if (match[5]) return language.words.has(language.caseless ? match[5].toLowerCase() : match[5]) ? "keyword" : "";
  return "";
}

/** @param {Token[]} tokens @param {Kind} kind @param {string} text */
function push(tokens, kind, text) {
  const last = tokens.at(-1);
  if (last !== undefined && last[0] === kind) last[1] += text;
  else tokens.push([kind, text]);
}

/** @param {string} text @returns {Token[]} */
function diffTokens(text) {
  /** @type {Token[]} */
  const tokens = [];
  for (const line of text.split(/(?<=\n)/)) push(tokens, line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : line.startsWith("@") ? "name" : "", line);
  return tokens;
}
