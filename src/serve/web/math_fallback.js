/* Formulas without a font for mathematics. A browser stretches brackets, roots and braces with
 * tables of such a font; many phones and some desktops have none. Then brackets and braces are
 * scaled to the size of what they enclose, and the signs of sums and integrals are larger. */

const SCALE_MAX = 12;
const PROBE_EM = 6;

const mathFont = {
  stretches: undefined, // whether brackets grow; known after the first formula

  /* Measures a bracket beside a tall box. */
  probe(parent) {
    const bracket = fenceNode("(", "prefix");
    const tall = mathEl("mspace", { width: "0", height: PROBE_EM / 2 + "em",
      depth: PROBE_EM / 2 + "em" });
    const probe = mathEl("math", { class: "unseen" }, mathEl("mrow", {}, bracket, tall));
    parent.append(probe);
    const { height } = bracket.getBoundingClientRect();
    if (height) {
      this.stretches = height > (PROBE_EM / 2) * parseFloat(getComputedStyle(probe).fontSize);
      document.documentElement.classList.toggle("no-math-font", !this.stretches);
    }
    probe.remove();
  },

  /* Called with nodes that are in the page and may have formulas. */
  fit(node) {
    const formulas = node.localName === "math" ? [node] : node.querySelectorAll("math");
    if (!formulas.length) return;
    if (this.stretches === undefined) this.probe(document.body);
    if (this.stretches !== false) return;
    for (const math of formulas) this.scale(math);
  },

  /* Reads all sizes before it changes any, so that the browser lays out once. */
  scale(math) {
    const marks = [...math.querySelectorAll("mo[stretchy=true]")].map((mark) => {
      const isFence = mark.hasAttribute("fence");
      const whole = isFence ? mark.parentNode : mark.previousSibling ?? mark.parentNode;
      return { mark, isFence, own: mark.getBoundingClientRect(),
        around: whole.getBoundingClientRect(), em: parseFloat(getComputedStyle(mark).fontSize) };
    });
    for (const { mark, isFence, own, around, em } of marks) {
      if (!own.width || !own.height) continue;
      const fixed = parseFloat(mark.getAttribute("minsize")) / 1.2 || 0;
      const wanted = isFence ? fixed || around.height / own.height : around.width / own.width;
      const scale = Math.min(SCALE_MAX, Math.max(1, wanted)).toFixed(3);
      const move = (around.top + around.bottom - own.top - own.bottom) / 2 / em;
      const shift = fixed ? "" : "translateY(" + move.toFixed(3) + "em) ";
      mark.style.transform = isFence ? shift + "scaleY(" + scale + ")" : "scaleX(" + scale + ")";
    }
  },
};
