// What to say: showing the source, and retrieving exemplars for it.

import { forgetSimilarities, setCards } from "./cards.js";
import { model } from "./model.js";
import { ask, askPatiently } from "./server.js";
import { keep, state, whatToSay } from "./state.js";
import { write, writeAll } from "./texts.js";
import { $, endNotice, later, make, nameTable, notify, WAIT } from "./tools.js";

let examples = [];
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
  showExample();
}

/** Ask for the sources to try. If that fails, the page can do without, and offers to ask again. */
export async function loadExamples() {
  try {
    ({ examples } = await ask("examples"));
    $("examples-fault").hidden = true;
  } catch (error) {
    $("examples-said").textContent = `There are no examples: ${error.message}`;
    $("examples-fault").hidden = false;
  }
  $("examples-field").hidden = !examples.length;
  const names = examples.map(({ source, table }) => (isPairs(table) ? nameTable(table) : source));
  $("examples").append(...names.map((text, number) => make("option", { value: number, text })));
}

// The form for a table has no place for the subjects of triples, so that these are shown in one line.
const isPairs = (table) => Boolean(table?.every((row) => row.length === 2));

export function takeExample(number) {
  const example = examples[number];
  if (!example) return;
  if (isPairs(example.table)) Object.assign(state, { form: "table", rows: example.table.map((row) => [...row]) });
  else Object.assign(state, { form: "text", source: example.source });
  showSource();
}

/** The list names the example that is there, if it is one. */
function showExample() {
  const same = ({ source, table }) => (
    state.form === "table" ? JSON.stringify(table) === JSON.stringify(state.rows) : !isPairs(table) && source === state.source
  );
  const number = examples.findIndex(same);
  $("examples").value = number < 0 ? "" : number;
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
  showExample();
  keep();
  retrieveSoon();
}

const notifyOfRetrieval = (text) => notify(text, "retrieval");
let retrieving = null;
let soughtFor = null; // what the retrieved cards were retrieved for; null before the first time
let isDue = false; // whether the last try failed

const sought = () => JSON.stringify([whatToSay(), state.group.trim()]);

/** The retrieved cards are those of what is there now; those of a link are, too. */
export function takeAsRetrieved(what = sought()) {
  [soughtFor, isDue] = [what, false];
}

/** Write a card whose text failed; retrieve first if that failed, too. */
export function tryAgain(card) {
  if (isDue || soughtFor !== sought()) retrieve();
  else write(card);
}

/** New exemplars in the place of those that were retrieved, then all texts. */
export async function retrieve() {
  retrieving?.abort();
  retrieving = new AbortController();
  const { signal } = retrieving;
  const what = whatToSay();
  if (what && model.reads_exemplars && model.exemplars) {
    try {
      const group = state.group.trim() || null;
      const asked = sought();
      const { exemplars } = await askPatiently("retrieve", { ...what, group, k: 4 * RETRIEVED }, signal, notifyOfRetrieval);
      endNotice("retrieval");
      takeAsRetrieved(asked);
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
      isDue = true;
      if (soughtFor !== sought()) forgetSimilarities();
      if (error.status) notifyOfRetrieval(error.message);
      else notify(error.message, "connection");
    }
  }
  writeAll();
}
