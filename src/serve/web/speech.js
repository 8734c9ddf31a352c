/* Texts for screen readers. A running answer is spoken block by block: each block once, when it is
 * complete. The live regions are not visible; their texts are removed after a while, so that they
 * are not met again when the page is read. */

const SPOKEN_CHARS_MAX = 2000; // of a block
const SPOKEN_MS = 20000;

/* A short message. */
function announce(text) {
  $("said").textContent = "";
  $("said").textContent = text;
}

/* What is read for a block: the text, formulas as TeX; for code only its length. */
function spokenText(node) {
  if (node.code !== undefined) {
    const lines = node.code.split("\n").length;
    return "Code, " + node.querySelector(".codehead span").textContent + ", " +
        plural(lines, "line") + ".";
  }
  const copy = node.cloneNode(true);
  for (const math of copy.querySelectorAll("math")) math.replaceWith(math.getAttribute("alttext"));
  const text = copy.textContent.trim();
  return text.length > SPOKEN_CHARS_MAX ? text.slice(0, SPOKEN_CHARS_MAX) + " …" : text;
}

const speech = {
  spoken: 0, // blocks of the running answer

  begin() {
    this.spoken = 0;
    $("spoken").replaceChildren();
  },

  /* Speaks the blocks of `prose` before `end` that were not spoken. */
  upTo(prose, end) {
    for (; this.spoken < end; this.spoken++) {
      const node = prose.childNodes[this.spoken];
      const text = node ? spokenText(node) : "";
      if (!text) continue;
      const part = el("p", {}, text);
      $("spoken").append(part);
      setTimeout(() => part.remove(), SPOKEN_MS);
    }
  },
};
