// The list of house styles: using one, removing one, and saving the chosen cards as one.

import { addCard, reveal, styleChanged } from "./cards.js";
import { exemplarsOf, loadStyles, model, styles } from "./model.js";
import { ask } from "./server.js";
import { state } from "./state.js";
import { $, make, notify, say } from "./tools.js";

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
    away.onclick = () => changeStyle(name, "DELETE", undefined, "Removed.");
    return make("li", {}, use, away);
  }));
}

async function changeStyle(name, method, body, done) {
  try {
    await ask(`styles/${encodeURIComponent(name)}`, body, { method });
    notify("");
    say(done);
    await showStyles();
  } catch (error) {
    notify(error.message);
  }
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
    notify("Tick one card or more first: the style is the mean of their exemplars.");
    return;
  }
  const exemplars = parts.map(([exemplar, weight]) => ({ exemplar, weight }));
  await changeStyle(name, "PUT", { exemplars }, `Saved the style ${name}.`);
  styleChanged(name);
}
