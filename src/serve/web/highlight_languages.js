/* The languages of highlight.js. A language is {comments, strings, more, words, ignoreCase}:
 * sources of regular expressions in order of precedence, and its keywords. No expression needs
 * more than one pass over the text that it matches. */

const wordSet = (text) => new Set(text.trim().split(/\s+/));

const LINE_SLASHES = String.raw`\/\/[^\n]*`;
const LINE_HASH = String.raw`#[^\n]*`;
const BLOCK_SLASHES = String.raw`\/\*[^]*?(?:\*\/|$)`;
const DOUBLE_QUOTED = String.raw`"(?:\\[^]|[^"\\\n])*"?`;
const SINGLE_QUOTED = String.raw`'(?:\\[^]|[^'\\\n])*'?`;
const CHARACTER = String.raw`'(?:\\[^\n]{1,9}?|[^'\\\n])'`;
const NUMBER = String.raw`\b(?:0[xX][\da-fA-F_']+|0[bB][01_']+|0[oO][0-7_]+|` +
    String.raw`\d[\d_']*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*|\B\.\d+(?:[eE][+-]?\d+)?`;

const C_WORDS = `auto bool break case char const continue default do double else enum extern false
  float for goto if inline int long nullptr register restrict return short signed sizeof static
  struct switch true typedef union unsigned void volatile while NULL _Atomic _Bool _Generic
  _Noreturn _Static_assert _Thread_local alignas alignof static_assert size_t ssize_t ptrdiff_t
  int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t FILE`;
const CPP_WORDS = `and catch class co_await co_return co_yield concept consteval constexpr constinit
  const_cast decltype delete dynamic_cast explicit export final friend mutable namespace new
  noexcept not operator or override private protected public reinterpret_cast requires
  static_cast template this throw try typeid typename using virtual wchar_t std __global__
  __device__ __host__ __shared__ __constant__ __restrict__ __launch_bounds__ __syncthreads threadIdx blockIdx blockDim gridDim dim3
  half __half __nv_bfloat16 cudaStream_t cudaError_t`;
const JS_WORDS = `abstract any as async await boolean break case catch class const constructor
  continue debugger declare default delete do else enum export extends false finally for from
  function get if implements import in infer instanceof interface is keyof let namespace never new
  null number of override private protected public readonly return satisfies set static string super
  switch symbol this throw true try type typeof undefined unique unknown var void while with yield`;
const SQL_WORDS = `add all alter and any as asc auto_increment avg begin between bigint boolean by
  cascade case cast char check coalesce column commit constraint count create cross current_date
  current_timestamp database date decimal default delete desc distinct drop else end except exists
  explain extract false float foreign from full function grant group having if ilike in index inner
  insert int integer intersect interval into is join key left like limit max min natural not null
  numeric offset on or order outer over partition primary procedure real recursive references
  replace returning revoke right rollback row rows select serial set smallint sum table text then
  timestamp to transaction trigger true truncate union unique update using uuid values varchar view
  when where window with without`;

const cFamily = (words, strings = [DOUBLE_QUOTED, CHARACTER]) => ({
  comments: [LINE_SLASHES, BLOCK_SLASHES],
  strings, words: wordSet(words),
  more: [["meta", String.raw`(?<=^|\n)[ \t]*#[ \t]*\w+(?:[ \t]*<[\w./+-]+>)?`]],
});

const python = {
  comments: [LINE_HASH],
  strings: [String.raw`\b[rbfuRBFU]{0,2}"""[^]*?(?:"""|$)|\b[rbfuRBFU]{0,2}'''[^]*?(?:'''|$)`,
    String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)`,
    String.raw`(?:\b[rbfuRBFU]{1,2})?(?:${DOUBLE_QUOTED}|${SINGLE_QUOTED})`],
  more: [["meta", String.raw`(?<=^|\n)[ \t]*@[\w.]+`]],
  words: wordSet(`and as assert async await break case class continue def del elif else except
    False finally for from global if import in is lambda match None nonlocal not or pass raise
    return self cls True try while with yield int float str bool list dict set tuple bytes object
    type range len print super isinstance enumerate zip`),
};

const javascript = {
  comments: [LINE_SLASHES, BLOCK_SLASHES],
  strings: [String.raw`\x60(?:\\[^]|[^\x60\\])*(?:\x60|$)`, DOUBLE_QUOTED, SINGLE_QUOTED,
    String.raw`(?<=[=(,:;!&|?{}[\n]\s{0,9}|^|\breturn\s)\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|` +
    String.raw`[^/\\\n[])+\/[a-z]*`],
  more: [["meta", String.raw`@\w+`]],
  words: wordSet(JS_WORDS),
};

const shell = {
  comments: [String.raw`(?<=^|[\s;])#[^\n]*`],
  strings: [String.raw`"(?:\\[^]|[^"\\])*"?`, String.raw`'[^']*'?`],
  more: [["name", String.raw`\$(?:\w+|[#?@*!$-]|\{[^}\n]*\})`],
    ["meta", String.raw`(?<=\s)--?[A-Za-z][\w-]*`]],
  words: wordSet(`if then else elif fi for while until do done case esac function in return exit
    export local readonly set unset source alias cd echo printf read test eval exec trap shift sudo
    true false time`),
};

const json = {
  comments: [LINE_SLASHES, BLOCK_SLASHES], // JSON with comments
  strings: [], words: wordSet("true false null"),
  more: [["name", String.raw`"(?:\\[^]|[^"\\\n])*"(?=\s{0,99}:)`], ["string", DOUBLE_QUOTED]],
};

const yaml = {
  comments: [String.raw`(?<=^|\s)#[^\n]*`],
  strings: [DOUBLE_QUOTED, String.raw`'(?:''|[^'\n])*'?`],
  more: [["name", String.raw`(?<=^|\n|[{,]\s{0,9})` +
    String.raw`(?:[ \t]*(?:- +){0,9})[\w./$-][\w ./$-]*(?=:(?:\s|$))`],
    ["meta", String.raw`[&*!][\w!./-]+|(?<=^|\n)---`]],
  words: wordSet("true false null yes no on off True False"),
};

const toml = {
  comments: [String.raw`[#;][^\n]*`],
  strings: [String.raw`"""[^]*?(?:"""|$)`, DOUBLE_QUOTED, SINGLE_QUOTED],
  more: [["meta", String.raw`(?<=^|\n)[ \t]*\[[^\n]*\]`],
    ["name", String.raw`(?<=^|\n)[ \t]*[\w.-]+(?=[ \t]*=)`]],
  words: wordSet("true false"),
};

const markup = {
  comments: [String.raw`<!--[^]*?(?:-->|$)`],
  strings: [String.raw`(?<==\s{0,9})(?:"[^"<]*"?|'[^'<]*'?)`],
  more: [["meta", String.raw`<![^>]*>?|<\?[^>]*>?|&#?\w{1,32};`],
    ["keyword", String.raw`<\/?[A-Za-z][\w:.-]*|\/?>`],
    ["name", String.raw`(?<=\s)[\w:@.-]+(?=\s{0,9}=)`]],
  words: new Set(),
  inner: { script: "js", style: "css" },
};

const css = {
  comments: [BLOCK_SLASHES, String.raw`(?<=^|\s)\/\/[^\n]*`],
  strings: [DOUBLE_QUOTED, SINGLE_QUOTED],
  more: [["keyword", String.raw`@[\w-]+|![a-z]+`],
    ["name", String.raw`(?<=[{;\n]\s{0,40})-{0,2}[a-zA-Z][\w-]*(?=\s{0,9}:)|--[\w-]+`],
    ["number", String.raw`#[\da-fA-F]{3,8}\b|(?<![\w-])-?\d[\d.]*(?:%|[a-z]{1,5})?`],
    ["meta", String.raw`[.#][A-Za-z][\w-]*|::?[a-z-]+`]],
  words: new Set(),
};

const diff = {
  comments: [], strings: [], words: new Set(),
  more: [["meta", String.raw`(?<=^|\n)(?:@@|diff |index |---|\+\+\+)[^\n]*`],
    ["added", String.raw`(?<=^|\n)\+[^\n]*`], ["removed", String.raw`(?<=^|\n)-[^\n]*`]],
  isWhole: true, // no words and numbers
};

const sql = {
  comments: [String.raw`--[^\n]*`, BLOCK_SLASHES],
  strings: [String.raw`'(?:''|[^'])*'?`, String.raw`"[^"\n]*"?`, String.raw`\x60[^\x60\n]*\x60?`],
  more: [], words: wordSet(SQL_WORDS), ignoreCase: true,
};

const go = cFamily(`break case chan const continue default defer else fallthrough for func go goto
  if import interface map package range return select struct switch type var true false nil iota
  bool byte rune string int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 uintptr float32
  float64 complex64 complex128 error any append cap close copy delete len make new panic print
  println recover`, [String.raw`\x60[^\x60]*(?:\x60|$)`, DOUBLE_QUOTED, CHARACTER]);

const rust = {
  ...cFamily(`as async await break const continue crate dyn else enum extern false fn for if impl in
  let loop match mod move mut pub ref return self Self static struct super trait true type union
  unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize
  String Vec Option Some None Result Ok Err Box println panic vec format`,
  [String.raw`\bb?r(#{0,3})"[^]*?(?:"\1|$)`, String.raw`b?"(?:\\[^]|[^"\\])*"?`, CHARACTER]),
  more: [["meta", String.raw`#!?\[[^\]\n]*\]|'[a-z_]\w*\b(?!')`]],
};

const java = {
  ...cFamily(`abstract assert boolean break byte case catch char class const continue data default
  do double else enum extends false final finally float for fun if implements import in instanceof
  int interface internal is long namespace native new null object open operator out override package
  private protected public record readonly return sealed short static string String super switch
  synchronized this throw throws transient true try using val var virtual void volatile when while
  yield async await let guard func struct protocol extension nil self init`,
  [String.raw`"""[^]*?(?:"""|$)`, DOUBLE_QUOTED, CHARACTER]),
  more: [["meta", String.raw`@\w+|(?<=^|\n)[ \t]*#\w+`]],
};

const c = cFamily(C_WORDS);
const cpp = cFamily(C_WORDS + " " + CPP_WORDS,
    [String.raw`\bR"(\w{0,16})\([^]*?(?:\)\1"|$)`, DOUBLE_QUOTED, CHARACTER]);

const HIGHLIGHT_NAMES = [
  [python, "python py python3 py3 starlark"], [javascript, `javascript js jsx mjs cjs typescript ts
  tsx node`], [c, "c h"], [cpp, "cpp c++ cc cxx hpp cuda cu cuh objective-c metal hip"],
  [go, "go golang"],
  [rust, "rust rs"], [java, "java kotlin kt scala csharp cs c# swift dart groovy"],
  [shell, "shell sh bash zsh console terminal shell-session fish dockerfile docker makefile make"],
  [json, "json jsonc json5 jsonl"], [yaml, "yaml yml"], [toml, "toml ini conf cfg properties"],
  [sql, "sql sqlite mysql postgresql postgres psql"], [markup, "html xml svg xhtml vue htm"],
  [css, "css scss less"], [diff, "diff patch"],
];
