// What to say: showing the source, and retrieving exemplars for it.

import { setCards } from "./cards.js";
import { model } from "./model.js";
import { ask, askPatiently } from "./server.js";
import { keep, state, whatToSay } from "./state.js";
import { writeAll } from "./texts.js";
import { $, endNotice, later, make, notify, WAIT } from "./tools.js";

const RETRIEVED = 3;
const OFFERED = 50; // groups, of which there may be thousands

export function showSource() {
  for (const input of document.getElementsByName("form")) input.checked = input.value === state.form;
  $("as-text").hidden = state.form !== "text";
  $("as-table").hidden = state.form !== "table";
  if ($("source").value !== state.source) $("source").value = state.source;
  $("group").value = state.group;
  $("strength").value = state.strength ?? model.guidance ?? 0;
  $("strength-shown").textContent = Number($("strength").value).toFixed(2);
  $("followed").checked = state.followed ?? model.manner === "followed";
  showRows();
}

export function showRows() {
  if (!state.rows.length) state.rows.push(["", ""]);
  $("rows").replaceChildren(...state.rows.map((row, number) => {
    const cells = ["Attribute", "Value"].map((name, side) => {
      const input = make("input", { "aria-label": `${name} ${number + 1}`, placeholder: name.toLowerCase() });
      input.value = row[side];
      input.oninput = () => { row[side] = input.value; sourceChanged(); };
      return input;
    });
    const remove = make("button", { type: "button", kind: "quiet", text: "✕", "aria-label": `Remove row ${number + 1}` });
    remove.onclick = () => { state.rows.splice(number, 1); showRows(); sourceChanged(); };
    return make("div", { kind: "row" }, ...cells, remove);
  }));
}

/** The groups whose names have the letters in the field, for its list. */
export async function offerGroups() {
  const search = $("group").value.trim();
  try {
    const { groups } = await ask(`groups?search=${encodeURIComponent(search)}&k=${OFFERED}`);
    if ($("group").value.trim() !== search) return; // the answer to later letters is on its way, or there
    $("groups").replaceChildren(...groups.map(({ name, exemplars }) => (
      make("option", { value: name, label: `${exemplars.toLocaleString("en")} exemplars` })
    )));
  } catch {
    // The list only helps; retrieving says what is wrong.
  }
}

const retrieveSoon = later(WAIT, retrieve);
export function sourceChanged() {
  keep();
  retrieveSoon();
}

const notifyOfRetrieval = (text) => notify(text, "retrieval");
let retrieving = null;

/** New exemplars in the place of those that were retrieved, then all texts. */
export async function retrieve() {
  retrieving?.abort();
  retrieving = new AbortController();
  const { signal } = retrieving;
  const what = whatToSay();
  if (what && model.reads_exemplars && model.exemplars) {
    try {
      const group = state.group.trim() || null;
      const { exemplars } = await askPatiently("retrieve", { ...what, group, k: 4 * RETRIEVED }, signal, notifyOfRetrieval);
      endNotice("retrieval");
      const chosen = new Set(state.cards.filter((card) => card.chosen).map((card) => card.text));
      // Several records may have the same text, and one card shows what it does.
      const texts = exemplars.map(({ text }) => text);
      const different = exemplars.filter(({ text }, place) => texts.indexOf(text) === place).slice(0, RETRIEVED);
      const found = different.map(({ id, text, similarity }) => (
        { kind: "retrieved", id, text, similarity, chosen: chosen.has(text) }
      ));
      setCards([...found, ...state.cards.filter((card) => card.kind !== "retrieved")]);
    } catch (error) {
      if (error.name === "AbortError") return;
      notifyOfRetrieval(error.message);
    }
  }
  writeAll();
}
