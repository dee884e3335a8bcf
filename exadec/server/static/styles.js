// The list of house styles: using one, removing one, and saving the chosen cards as one.

import { addCard, reveal, styleChanged } from "./cards.js";
import { exemplarsOf, loadStyles, model, styles } from "./model.js";
import { ask } from "./server.js";
import { state } from "./state.js";
import { $, make, notify } from "./tools.js";

export async function showStyles() {
  if (!model.adapts) return;
  $("styles-part").hidden = false;
  try {
    await loadStyles();
  } catch (error) {
    notify(error.message);
  }
  $("styles").replaceChildren(...styles.map(({ name, exemplars }) => {
    const use = make("button", { type: "button", kind: "use", text: name });
    use.append(make("span", { kind: "soft", text: ` ${exemplars.length} exemplar${exemplars.length === 1 ? "" : "s"}` }));
    use.onclick = () => reveal(addCard({ kind: "style", style: name }));
    const away = make("button", { type: "button", kind: "quiet", text: "✕", "aria-label": `Remove the style ${name}` });
    away.onclick = () => changeStyle(name, "DELETE", undefined, `Removed the style ${name}.`);
    return make("li", {}, use, away);
  }));
}

/** What came of a change, beside the form: the top of the page may be far away. */
function sayHere(text, isFault = false) {
  $("style-said").textContent = text;
  $("style-said").className = isFault ? "fault" : "done";
  $("style-said").hidden = false;
  $("style-said").scrollIntoView({ block: "nearest" });
}

/** True if the server did it. */
async function changeStyle(name, method, body, done) {
  try {
    await ask(`styles/${encodeURIComponent(name)}`, body, { method });
  } catch (error) {
    sayHere(error.message, true);
    return false;
  }
  sayHere(done);
  await showStyles();
  return true;
}

/** The exemplars of a card, with weights that sum to 1. */
function partsOf(card) {
  if (card.kind === "between") return [[card.a, 1 - card.share], [card.b, card.share]];
  if (card.kind !== "style") return card.text.trim() ? [[card.text, 1]] : [];
  const parts = exemplarsOf(card.style);
  const total = parts.reduce((sum, part) => sum + part.weight, 0);
  return parts.map((part) => [part.exemplar, part.weight / total]);
}

export async function saveStyle(event) {
  event.preventDefault();
  const name = $("style-name").value.trim();
  const parts = state.cards.filter((card) => card.chosen).flatMap(partsOf);
  if (!parts.length) {
    sayHere("Tick one card or more first: the style is the mean of their exemplars.", true);
    return;
  }
  const exemplars = parts.map(([exemplar, weight]) => ({ exemplar, weight }));
  const verb = exemplarsOf(name).length ? "Replaced" : "Saved";
  if (!(await changeStyle(name, "PUT", { exemplars }, `${verb} the style ${name}.`))) return;
  $("style-name").value = "";
  styleChanged(name);
}
