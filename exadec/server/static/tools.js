// Small tools for all modules: elements, delays, storage, notices, announcements, the clipboard.

export const WAIT = 350; // milliseconds between the last key and a request

export const $ = (id) => document.getElementById(id);
export const named = (label) => label.replaceAll("_", " ");
export const nameTable = (table) => table.map(([name, value]) => `${name}: ${value}`).join("; ");
export const percent = (share) => `${Math.round(100 * share)} %`;

export function make(tag, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name === "kind" ? "class" : name, value);
  element.append(...children);
  return element;
}

export function later(milliseconds, what) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => what(...given), milliseconds);
  };
}

// A browser may forbid storage. Then even to name it is an error, so that `storage` is its name in quotes.
export function remembered(storage, name) {
  try { return window[storage].getItem(name); } catch { return null; }
}
export function remember(storage, name, value) {
  try { window[storage].setItem(name, value); } catch { /* then it lasts until the page is left */ }
}

export function notify(text, about = "") {
  $("notice").textContent = text;
  $("notice").hidden = !text;
  $("notice").dataset.about = about;
}

export function endNotice(about) {
  if ($("notice").dataset.about === about) notify("");
}

const said = [];
const announce = later(400, () => { $("live").textContent = said.splice(0).join(" "); });
export function say(text) {
  said.push(text);
  announce();
}

export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
    flash(button, "Copied ✓");
  } catch {
    notify("The browser does not allow copying; select the text, or copy the address.");
  }
}

function flash(button, text) {
  button.dataset.label ??= button.textContent;
  button.textContent = text;
  setTimeout(() => { button.textContent = button.dataset.label; }, 1500);
}
