"""Talking through the page: the real program, the bundled model."""

import time

import pytest
from conftest import PHONE, chunk, usage


def test_question_and_answer(osprey, open_chat):
    chat = open_chat(osprey.url)
    chat.shot("empty-light")
    assert chat.page.inner_text("#model") == "osprey-nano"
    chat.ask("What is the capital of France?")
    answer = chat.done()
    assert answer.locator(".prose").inner_text() == "Paris"
    assert "tokens" in answer.locator(".stats").inner_text() and "time to first token" in answer.locator(".stats").inner_text()
    folded = answer.locator("details.reasoning")
    assert folded.get_attribute("open") is None and not folded.locator(".thoughts").is_visible()
    folded.locator("summary").click()
    assert "France" in folded.locator(".thoughts").inner_text()
    chat.ask("What is 17 + 25?")
    assert chat.done().locator(".prose").inner_text() == "42"
    chat.shot("answer-light")
    assert "The answer is complete" in chat.page.inner_text("#said")


def test_conversation_outlives_the_page(osprey, open_chat):
    chat = open_chat(osprey.url)
    chat.ask("What is the capital of Italy?")
    chat.done()
    chat.page.reload()
    assert chat.page.locator(".mine .said").inner_text() == "What is the capital of Italy?"
    assert chat.page.locator(".theirs .prose").inner_text() == "Rome"
    chat.page.click("#new")
    assert chat.page.locator(".turn").count() == 0 and chat.page.is_visible("#welcome")
    chat.page.click("#open-chats")
    chat.page.click("#chat-list .pick >> text=Italy")
    assert chat.page.locator(".theirs .prose").inner_text() == "Rome"
    chat.page.click("#open-chats")
    chat.page.click("#chat-list .more-actions")
    chat.page.click("#chat-list >> text=Delete")
    assert chat.page.locator(".turn").count() == 0
    chat.page.keyboard.press("Escape")
    chat.page.click("#open-chats")
    assert chat.page.inner_text("#chat-list") == "No chats yet."


def test_edit_and_again(osprey, open_chat):
    chat = open_chat(osprey.url)
    chat.ask("What is the capital of Spain?")
    assert chat.done().locator(".prose").inner_text() == "Madrid"
    chat.page.click("[aria-label='Regenerate the answer']")
    assert chat.done().locator(".prose").inner_text() == "Madrid"
    chat.page.click("[aria-label='Edit your message']")
    assert chat.page.input_value("#entry") == "What is the capital of Spain?"
    chat.ask("What is the capital of Japan?")
    assert chat.done().locator(".prose").inner_text() == "Tokyo"
    assert chat.page.locator(".turn").count() == 2


def test_copy(osprey, open_chat, browser):
    chat = open_chat(osprey.url, permissions=["clipboard-read", "clipboard-write"])
    chat.ask("What is the capital of France?")
    chat.done().locator("[aria-label='Copy the answer']").click()
    chat.until("document.getElementById('said').textContent === 'Copied'")
    assert chat.page.evaluate("navigator.clipboard.readText()") == "Paris"


def test_stop_cancels_on_the_server(osprey, open_chat):
    """An answer of a thousand tokens, stopped after some; the engine is idle soon, and the text is kept."""
    chat = open_chat(osprey.url)
    chat.page.route("**/v1/chat/completions", lambda route: route.continue_(
        post_data={**route.request.post_data_json, "ignore_eos": True, "max_tokens": 3500}))
    chat.ask("What is 123 + 456?")
    chat.until("document.querySelector('.turn.theirs .reasoning')")
    assert chat.page.is_visible("#stop") and not chat.page.is_visible("#send")
    chat.shot("streaming-light")
    chat.page.keyboard.press("Escape")
    answer = chat.done()
    assert "Stopped." in answer.inner_text()
    assert chat.page.is_visible("#send")
    end = time.monotonic() + 20
    while osprey.health()["running"] > 0:
        assert time.monotonic() < end, osprey.health()
        time.sleep(0.02)


def test_key(start_server, open_chat):
    server = start_server("--api-key", "secret")
    chat = open_chat(server.url, ready=False)
    chat.wait("#key[open]")
    chat.shot("key")
    chat.page.fill("#key-form [name=key]", "wrong")
    chat.page.keyboard.press("Enter")
    chat.until("document.getElementById('key-text').textContent.includes('refused this API key')")
    chat.page.fill("#key-form [name=key]", "secret")
    chat.page.keyboard.press("Enter")
    chat.wait("#dot.good")
    chat.ask("What is the capital of France?")
    assert chat.done().locator(".prose").inner_text() == "Paris"
    kept = chat.page.evaluate("[JSON.stringify(localStorage), JSON.stringify(sessionStorage)]")
    assert "secret" not in kept[0] and "secret" in kept[1]


def test_killed_server_and_retry(start_server, open_chat):
    server = start_server()
    chat = open_chat(server.url)
    chat.page.route("**/v1/chat/completions", lambda route: route.continue_(
        post_data={**route.request.post_data_json, "ignore_eos": True, "max_tokens": 3500}))
    chat.ask("What is 123 + 456?")
    chat.until("document.querySelector('.thoughts')?.textContent.length > 20")
    server.kill()
    answer = chat.done()
    assert "The connection was lost" in answer.locator(".trouble").inner_text()
    assert len(answer.locator(".thoughts").text_content()) > 20
    chat.wait("#dot.bad")
    chat.shot("lost")
    chat.page.click(".trouble button")
    chat.until("document.querySelector('.trouble')?.textContent.includes('cannot be reached')")
    start_server(port=server.port)
    chat.wait("#dot.good")
    chat.page.unroute("**/v1/chat/completions")
    chat.page.click(".trouble button")
    assert "579" in chat.done().locator(".prose").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_phone(osprey, open_chat, theme):
    """Nothing is wider than 360 pixels, and what a thumb must hit is large enough."""
    chat = open_chat(osprey.url, size=PHONE, has_touch=True, is_mobile=True, color_scheme=theme)
    assert chat.page.evaluate("document.documentElement.dataset.theme") == theme
    chat.shot(f"phone-empty-{theme}")
    chat.page.fill("#entry", "What is 17 + 25?")
    chat.page.tap("#send")
    chat.done()
    chat.page.tap(".reasoning summary")
    chat.shot(f"phone-answer-{theme}")
    assert chat.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    small = chat.page.evaluate("""[...document.querySelectorAll('button, select')].filter((b) => b.offsetParent)
        .map((b) => [b.getAttribute('aria-label'), b.getBoundingClientRect()]).filter(([, r]) => r.height < 30 || r.width < 30)
        .map(([name, r]) => name + ' ' + r.width + 'x' + r.height)""")
    assert small == []
    chat.page.tap("#open-settings")
    chat.shot(f"phone-settings-{theme}")
    box = chat.page.locator("#settings").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]


def test_keyboard_alone(osprey, open_chat):
    """From the skip link through every button; what has the focus shows it, and a dialog keeps it."""
    chat = open_chat(osprey.url)
    page = chat.page
    page.focus(".skip")
    seen = ["Skip to the message field"]
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if seen[-1] == "send":
            break
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", seen[-1]
    assert seen[:6] == ["Skip to the message field", "new", "open-chats", "theme", "open-shortcuts", "open-settings"]
    assert seen[-3:] == ["entry", "effort", "send"]
    page.focus("#open-settings")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('dialog')?.id") == "settings"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "open-settings"


def test_theme_switch_is_kept(osprey, open_chat):
    chat = open_chat(osprey.url, color_scheme="light")
    chat.page.click("#theme")
    assert chat.page.evaluate("document.documentElement.dataset.theme") == "dark"
    chat.page.reload()
    assert chat.page.evaluate("document.documentElement.dataset.theme") == "dark"
    chat.shot("empty-dark")
    chat.page.click("#theme")
    assert chat.page.evaluate("document.documentElement.dataset.theme") == "light"


def test_settings_reach_the_request(stand_in, open_chat):
    chat = open_chat(stand_in.url)
    chat.page.click("#open-settings")
    chat.shot("settings-light")
    for name, value in (("system", "Be brief."), ("temperature", "0.3"), ("top_p", "0.9"), ("max_tokens", "77"), ("seed", "5"), ("key", "k")):
        chat.page.fill(f"#settings-form [name={name}]", value)
    chat.page.click("#settings-form .primary")
    chat.page.select_option("#effort", "high")
    stand_in.scripts.append(lambda answer: answer.text("fine"))
    chat.ask("hello")
    chat.done()
    body, headers = stand_in.requests[0]
    assert body == {"model": "gpt-oss-20b", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.3,
                    "top_p": 0.9, "max_tokens": 77, "seed": 5, "reasoning_effort": "high",
                    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]}
    assert headers["authorization"] == "Bearer k"
    chat.page.reload()
    chat.page.click("#open-settings")
    assert chat.page.input_value("#settings-form [name=temperature]") == "0.3"
    chat.page.fill("#settings-form [name=temperature]", "3")
    chat.page.click("#settings-form .primary")
    assert chat.page.is_visible("#settings")  # out of range: it stays open


def test_tool_call_and_result(stand_in, open_chat):
    def calls(answer):
        answer.begin()
        answer.send(chunk({"role": "assistant", "content": None, "reasoning_content": "I need the weather."}),
                    chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}]}),
                    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]}),
                    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
                    chunk({}, "tool_calls"), usage(30, 5), "[DONE]")

    tool = '[{"type": "function", "function": {"name": "get_weather"}}]'
    chat = open_chat(stand_in.url)
    chat.page.click("#open-settings")
    chat.page.click("#tools-part summary")
    chat.page.fill("[name=tools]", "[{")
    chat.page.click("#settings-form .primary")
    assert "not valid JSON" in chat.page.inner_text("#settings-error")
    chat.page.fill("[name=tools]", tool)
    chat.page.click("#settings-form .primary")
    stand_in.scripts += [calls, lambda answer: answer.text("It is sunny in Oslo.")]
    chat.ask("Weather in Oslo?")
    call = chat.done().locator(".call")
    assert call.locator(".call-name").inner_text() == "get_weather"
    assert call.locator("pre").inner_text() == '{\n  "city": "Oslo"\n}'
    call.locator("textarea").fill("sunny")
    chat.shot("tool-call")
    chat.page.click("text=Send the result")
    assert chat.done().locator(".prose").inner_text() == "It is sunny in Oslo."
    messages = stand_in.requests[1][0]["messages"]
    assert messages[1]["reasoning_content"] == "I need the weather."
    assert messages[1]["tool_calls"] == [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]
    assert messages[2] == {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
