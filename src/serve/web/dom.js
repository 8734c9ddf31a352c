"use strict";
/* Makes and finds elements of the page. Text always becomes text nodes, never markup. */

const $ = (id) => document.getElementById(id);

/* el("p", {class: "x", onclick: f}, "text", node): an element. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", "#i-" + name);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

function iconButton(name, label, onclick) {
  return el("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick },
      icon(name));
}
