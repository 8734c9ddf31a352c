"""The stored chats in the browser: search, rename, delete, export, import, and a storage that is full."""

import json
import threading

import pytest
from conftest import chunk


def say(chat, stand_in, *pairs):
    """A new chat of questions and answers."""
    chat.page.click("#new")
    for question, answer in pairs:
        stand_in.scripts.append(lambda a, text=answer: a.text(text))
        chat.ask(question)
        chat.done()


@pytest.fixture
def chat(stand_in, open_chat):
    opened = open_chat(stand_in.url, accept_downloads=True)
    say(opened, stand_in, ("Which bird is it?", "An osprey, *Pandion haliaetus*."))
    say(opened, stand_in, ("How high is it?", "It flies **high**."), ("And how fast?", "120 km/h"))
    return opened


def titles(chat):
    return chat.page.locator("#chat-list .title").all_inner_texts()


def actions_of(chat, title):
    row = chat.page.locator("#chat-list > li", has_text=title)
    row.locator(".more-actions").click()
    return chat.page.locator("#chat-list > li", has_text=title).locator(".chat-actions")


def test_search(chat):
    chat.page.keyboard.press("Control+k")
    assert chat.page.evaluate("document.activeElement.id") == "chats-search"
    assert titles(chat) == ["How high is it?", "Which bird is it?"]
    chat.page.keyboard.type("PANDION")
    assert titles(chat) == ["Which bird is it?"]
    assert "Pandion haliaetus" in chat.page.inner_text("#chat-list .when")
    assert chat.page.inner_text("#chats-count") == "1 of 2 chats"
    chat.page.fill("#chats-search", "nothing like this")
    assert chat.page.inner_text("#chat-list") == "No chat contains this text."
    chat.page.fill("#chats-search", "which bird")
    chat.page.click("#chat-list .pick")
    assert "Pandion" in chat.page.inner_text("#log")


def test_rename(chat):
    chat.page.click("#open-chats")
    actions_of(chat, "How high").locator("text=Rename").click()
    assert chat.page.evaluate("document.activeElement.className") == "rename"
    chat.page.keyboard.type("Speed & height")
    chat.page.keyboard.press("Enter")
    assert titles(chat) == ["Speed & height", "Which bird is it?"]
    assert chat.page.title() == "Speed & height · osprey"
    actions_of(chat, "Which bird").locator("text=Rename").click()
    chat.page.keyboard.type("Not this")
    chat.page.keyboard.press("Escape")  # ends the renaming, not the dialog
    assert chat.page.is_visible("#chats") and titles(chat) == ["Speed & height", "Which bird is it?"]
    chat.page.reload()
    chat.page.click("#open-chats")
    assert titles(chat) == ["Speed & height", "Which bird is it?"]


def test_delete_and_undo(chat):
    chat.page.click("#open-chats")
    actions_of(chat, "Which bird").locator("text=Delete").click()
    assert titles(chat) == ["How high is it?", "Deleted: Which bird is it?"]
    assert chat.page.evaluate("document.activeElement.textContent") == "Undo"
    chat.page.keyboard.press("Enter")
    assert titles(chat) == ["How high is it?", "Which bird is it?"]
    actions_of(chat, "How high").locator("text=Delete").click()
    assert chat.page.locator(".turn").count() == 0  # it was the open chat
    chat.page.keyboard.press("Escape")
    chat.page.reload()
    chat.page.click("#open-chats")
    assert titles(chat) == ["Which bird is it?"]


def test_delete_while_the_answer_is_running(stand_in, chat):
    """The end of the answer does not store the chat again."""
    never = threading.Event()

    def endless(answer):
        """Until the page closes the connection: then a write fails."""
        answer.begin()
        while True:
            answer.send(chunk({"content": "on and on "}))
            never.wait(0.05)

    stand_in.scripts.append(endless)
    chat.page.click("#new")
    chat.ask("Endless?")
    chat.wait(".prose >> text=on and on")
    chat.until("Object.values(localStorage).some((text) => text.includes('Endless'))")  # stored once a second
    chat.page.click("#open-chats")
    actions_of(chat, "Endless").locator("text=Delete").click()
    chat.until("document.querySelectorAll('.turn').length === 0")
    chat.until("!document.getElementById('send').hidden")
    assert not chat.page.evaluate("Object.values(localStorage).some((text) => text.includes('Endless'))")


def test_export_and_import(chat, stand_in, open_chat, tmp_path):
    chat.page.click("#open-chats")
    with chat.page.expect_download() as one:
        actions_of(chat, "How high").locator("text=Markdown").click()
    assert one.value.suggested_filename == "How-high-is-it.md"
    text = open(one.value.path(), encoding="utf-8").read()
    assert text == "# How high is it?\n\n## User\n\nHow high is it?\n\n## Assistant\n\nIt flies **high**.\n\n" \
        "## User\n\nAnd how fast?\n\n## Assistant\n\n120 km/h\n"
    with chat.page.expect_download() as every:
        chat.page.click("#chats-export")
    path = tmp_path / "chats.json"
    path.write_bytes(open(every.value.path(), "rb").read())
    assert len(json.loads(path.read_text())["chats"]) == 2

    other = open_chat(stand_in.url)  # another browser
    other.page.click("#open-chats")
    other.page.set_input_files("#chats-file", path)
    other.until("document.getElementById('chats-note').textContent === '2 chats imported.'")
    assert titles(other) == titles(chat)
    other.page.set_input_files("#chats-file", path)
    other.until("document.getElementById('chats-note').textContent === '0 chats imported, 2 already stored.'")
    path.write_text('{"format": "x"}')
    other.page.set_input_files("#chats-file", path)
    other.until("document.getElementById('chats-note').textContent.includes('not an export')")
    other.page.click("#chat-list .pick >> text=How high")
    assert other.page.locator(".prose strong").inner_text() == "high"


def test_import_of_hostile_chats(stand_in, open_chat, tmp_path):
    """Texts of a file are shown as text, and its links are checked like those of an answer."""
    bad = "<img src=x onerror='window.hurt=1'> [x](javascript:window.hurt=2)"
    call = {"id": bad, "name": bad, "arguments": bad, "result": bad}
    answer = {"role": "assistant", "text": bad, "reasoning": bad, "calls": [call], "state": "failed", "trouble": {"kind": bad, "what": bad, "why": bad}}
    path = tmp_path / "chats.json"
    path.write_text(json.dumps({"format": "osprey-chats", "version": 1, "chats": [
        {"id": "a", "at": 1, "title": bad, "messages": [{"role": "user", "text": bad}, answer]}]}))
    chat = open_chat(stand_in.url)
    chat.page.click("#open-chats")
    chat.page.set_input_files("#chats-file", path)
    chat.page.click("#chat-list .pick")
    assert chat.page.locator(".trouble").inner_text().startswith(bad)
    assert chat.page.locator("#log img, #log a, #chat-list img").count() == 0
    assert chat.page.evaluate("window.hurt") is None


def test_storage_that_is_full(chat, stand_in):
    """The page says that a chat is not stored, continues, and stores it when there is space again."""
    chat.page.evaluate("""() => { for (let size = 1 << 20; size > 0; size >>= 1)
        try { for (let i = 0; ; i++) localStorage.setItem("fill" + size + "." + i, "x".repeat(size)); } catch {} }""")
    say(chat, stand_in, ("Is there space?", "No."))
    assert "storage is full: this chat is not stored" in chat.page.inner_text("#notice")
    chat.shot("storage-full")
    chat.page.click("#notice-chats")
    assert "Is there space?" not in titles(chat)
    chat.page.keyboard.press("Escape")
    chat.page.evaluate("for (const name of Object.keys(localStorage)) if (name.startsWith('fill')) localStorage.removeItem(name)")
    stand_in.scripts.append(lambda answer: answer.text("Yes."))
    chat.ask("And now?")
    chat.done()
    chat.until("document.getElementById('notice').hidden")
    chat.page.click("#open-chats")
    assert "Is there space?" in titles(chat)
