"""tools/list_strings finds every kind of text with its place, and --new prints only the new ones."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
TOOL = ROOT / "tools" / "list_strings"

TREE = {
    "src/base/a.c": 'int f(void)\n{\n    /* fail(1, "no text") */\n    log_warn("the file is old");\n'
                    '    return fail(OSP_EINVAL, "%s: has %d "\n                "dims", name, n);\n}\n',
    "src/base/b.c": 'int g(void) { return fail(OSP_EINVAL, "%s: has %d dims", name, n); }\n'
                    'int h(int c) { return strchr("not a text", c) != NULL; }\n',
    "src/base/c.c": 'void p(void) { fail(OSP_EIO, "read %" PRId64 " bytes", n); printf("ready in %d s\\n", n); }\n',
    "src/cli/cmd_x.c": 'static const struct option_row OPTIONS[] = {{.name = "x", .help = "print one \\"x\\""}};\n'
                       'static const char letter = \'"\';\n',
    "src/serve/metrics.c": 'X("osprey:steps_total", "counter", "Number of steps.")\n',
    "src/serve/fields/json_fields.c": 'BOOL("echo", "{\'type\':\'boolean\', \'x y\'}", "Repeats the prompt.")\n',
    "src/serve/web/page.html": '<title>osprey</title>\n<style>a b</style>\n<button title="New chat">Send it</button>\n',
    "src/serve/web/main.js": '// "not this one"\nel("p", { class: "big red" }, "Copied");\nsay("the chat is empty");\n',
}
EXPECTED = [
    "error\t%s: has %d dims\tsrc/base/a.c:5 src/base/b.c:1",
    "error\tread %PRId64 bytes\tsrc/base/c.c:1",
    "log\tthe file is old\tsrc/base/a.c:4",
    'help\tprint one \\"x\\"\tsrc/cli/cmd_x.c:1',
    "openapi\tRepeats the prompt.\tsrc/serve/fields/json_fields.c:1",
    "metric\tNumber of steps.\tsrc/serve/metrics.c:1",
    "web\tCopied\tsrc/serve/web/main.js:2",
    "web\tNew chat\tsrc/serve/web/page.html:3",
    "web\tSend it\tsrc/serve/web/page.html:3",
    "web\tosprey\tsrc/serve/web/page.html:1",
    "web\tthe chat is empty\tsrc/serve/web/main.js:3",
    "output\tready in %d s\\n\tsrc/base/c.c:1",
]


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run(*arguments):
    done = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_every_kind_once_and_sorted(tmp_path):
    write(tmp_path, TREE)
    assert run(tmp_path) == EXPECTED


def test_one_kind(tmp_path):
    write(tmp_path, TREE)
    assert run(tmp_path, "--kind", "log", "--kind", "metric") == [EXPECTED[2], EXPECTED[5]]


def test_only_new_texts(tmp_path):
    write(tmp_path, TREE)
    before = tmp_path / "before.txt"
    before.write_text("\n".join(run(tmp_path)) + "\n")
    assert run(tmp_path, "--new", before) == []
    # a text that moved is not new, a changed one is
    write(tmp_path, {"src/base/c.c": "\n" + TREE["src/base/c.c"].replace("ready in", "started after")})
    assert run(tmp_path, "--new", before) == ["output\tstarted after %d s\\n\tsrc/base/c.c:2"]


def test_this_tree():
    kinds = [line.split("\t")[0] for line in run(ROOT)]
    for kind, least in {"error": 500, "log": 30, "help": 100, "openapi": 50, "metric": 25, "web": 50}.items():
        assert kinds.count(kind) >= least, kind
