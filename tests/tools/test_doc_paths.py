"""Documents name files, folders, options and make targets that exist."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "osprey"
LOGS = {"docs/speed-log.md", "docs/security-findings.md"}  # dated: they name files of their day
PAGES = [path for pattern in ("*.md", "docs/*.md", "bench/*.md", "deploy/*.md", "tools/*/*.md", "models/*/*.md")
         for path in sorted(ROOT.glob(pattern)) if path.relative_to(ROOT).as_posix() not in LOGS]
# paths of other projects, and files that a command of the page writes
ELSEWHERE = {"models/gpt_oss.py", "src/models/openai-moe-iswa.cpp", "tools/server/", "bench/results/peers.json",
             "src/dist"}
TOPS = "src|tests|tools|docs|bench|include|examples|models"


def names(paths):
    return [path.relative_to(ROOT).as_posix() for path in paths]


def anchors(page):
    """Those that GitHub and other Markdown viewers make of headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line) for line in re.findall(r"^#+ (.*)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def exists(path):
    """A path below the root; a wildcard may also stand for sub-folders."""
    path = path.rstrip("/")
    if "*" not in path and "{" not in path:
        return (ROOT / path).exists()
    folder, _, name = re.sub(r"\{[^}]*\}", "*", path).rpartition("/")
    return any(one for start in ROOT.glob(folder) for one in start.rglob(name))


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_to_headings(page):
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text())
    missing = []
    for link, anchor in links:
        target = page.parent / link if link else page
        if "://" not in link and target.suffix == ".md" and anchor not in anchors(target):
            missing.append(f"{link}#{anchor}")
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_files_exist(page):
    text = page.read_text()
    paths = set(re.findall(rf"(?<![\w./-])((?:{TOPS})/[\w./*{{}},-]*[\w*}}/])(?![\w.<-])", text))
    missing = sorted(path for path in paths - ELSEWHERE if not exists(path))
    assert not missing


def test_the_map_for_vllm_users():
    """Every option of the table is one of osprey, or one of those that it ignores or refuses."""
    text = (ROOT / "docs" / "for-vllm-users.md").read_text()
    known = "".join(subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=True).stdout
                    for words in (["help", "serve"], ["help", "--foreign"], ["help", "bench"]))
    known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", known))
    options = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text)) - {"--foreign", "--fit"}
    assert len(options) > 40
    assert not options - known


def test_targets_exist():
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z][\w-]*)", page.read_text()):
            assert target in targets, f"{page}: make {target}"
