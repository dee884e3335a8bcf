// The page of `exadec serve`: a source on the left, exemplars and their texts on the right, and the style map.
// This module starts it and listens; each other one does one thing, and says which in its first line.

import { addCard, firstCards, setCards } from "./cards.js";
import { listenToDemands, showDemands } from "./demands.js";
import { openExport } from "./export.js";
import { find, showEnds } from "./finder.js";
import { drawMap, loadMap, showMap } from "./map.js";
import { loadModel, model } from "./model.js";
import { hover, leave, press, touch } from "./pointing.js";
import { loadExamples, offerGroups, retrieve, showRows, showSource, sourceChanged, takeAsRetrieved, takeExample, tryAgain } from "./source.js";
import { fromAddress, keep, state, toAddress, whatToSay } from "./state.js";
import { saveStyle, showStyles } from "./styles.js";
import { writeAll, writeSoon } from "./texts.js";
import { $, copy, later, notify, remember, remembered, WAIT } from "./tools.js";

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").value = theme;
  remember("localStorage", "exadec-theme", theme);
}

function writeAllSoon() {
  keep();
  for (const card of state.cards) writeSoon(card, WAIT);
}

function listenToSource() {
  $("source").oninput = (event) => { state.source = event.target.value; sourceChanged(); };
  for (const input of document.getElementsByName("form")) {
    input.onchange = () => { state.form = input.value; showSource(); sourceChanged(); };
  }
  $("add-row").onclick = () => {
    state.rows.push(["", ""]);
    showRows();
    $("rows").lastElementChild.querySelector("input").focus();
  };
  $("examples").onchange = (event) => {
    if (!event.target.value) return;
    takeExample(event.target.value);
    sourceChanged();
  };
  $("examples-again").onclick = async () => {
    await loadExamples();
    if (!whatToSay()) beginWithExample();
  };
  $("group").oninput = later(150, offerGroups);
  $("group").onchange = (event) => { state.group = event.target.value; sourceChanged(); };
}

function listen() {
  listenToSource();
  $("strength").oninput = (event) => {
    state.strength = Number(event.target.value);
    $("strength-shown").textContent = state.strength.toFixed(2);
    writeAllSoon();
  };
  $("followed").onchange = (event) => { state.followed = event.target.checked; writeAllSoon(); };
  listenToDemands(writeAllSoon);
  $("more").onclick = retrieve;
  $("cards").onclick = ({ target }) => {
    if (target.closest(".again")) tryAgain(state.cards.find((card) => card.element.contains(target)));
  };
  $("add-card").onclick = () => addCard({ kind: "own", text: "" })?.element.querySelector("textarea").focus();
  $("skip").onclick = (event) => {
    event.preventDefault(); // the address holds the page's state, and not a place on it
    $("cards-title").focus();
  };
  $("link").onclick = (event) => copy(`${location.href.split("#")[0]}#${toAddress()}`, event.currentTarget);
  $("export").onclick = openExport;
  $("copy-markdown").onclick = (event) => copy($("markdown").value, event.currentTarget);
  $("close-export").onclick = () => $("export-dialog").close();
  $("theme").onchange = (event) => setTheme(event.target.value);
  $("save-style").onsubmit = saveStyle;
  $("find").oninput = later(150, find);
  $("map").onpointerdown = press;
  $("map").onpointermove = hover;
  $("map").onpointerleave = leave;
  // Without `passive: false`, the browser would scroll at once. It heeds `touch-action` only of the whole map.
  $("map").addEventListener("touchstart", touch, { passive: false });
  addEventListener("resize", later(150, drawMap));
  // Not `location.hash`: `keep` may have written the old state over it since.
  addEventListener("hashchange", (event) => restore(new URL(event.newURL).hash.slice(1)));
}

/** What an address holds after its #; false if it holds nothing. */
function restore(text) {
  if (!text || $(text) || text === toAddress()) return false;
  let found;
  try {
    found = fromAddress(text);
  } catch {
    notify("This link is damaged, so the page starts afresh.");
    return false;
  }
  const { cards, ...rest } = found;
  Object.assign(state, rest);
  showSource();
  showDemands();
  setCards(cards ?? firstCards());
  showMap();
  showEnds();
  keep();
  if (cards) {
    takeAsRetrieved();
    writeAll();
  } else retrieve();
  return true;
}

function begin() {
  setCards(firstCards());
  showSource();
  showDemands();
  beginWithExample();
}

function beginWithExample() {
  if (!whatToSay()) takeExample(0); // somebody may have begun to type
  retrieve();
}

function describe() {
  const count = model.exemplars?.toLocaleString("en") ?? "no";
  $("model").textContent = `${model.variant} · ${count} exemplars · ${model.policy}`;
  for (const name of ["strength", "followed"]) {
    $(`${name}-field`).hidden = $(`${name}-help`).hidden = !model.takes_guidance;
  }
  $("group-field").hidden = !model.group_count;
  if (model.group_count) offerGroups();
  $("more").hidden = !model.reads_exemplars || !model.exemplars;
  $("add-card").hidden = !model.reads_exemplars;
}

async function start() {
  setTheme(remembered("localStorage", "exadec-theme") || "auto");
  listen();
  try {
    await loadModel();
    await loadExamples();
    describe();
    await showStyles();
    if (!restore(location.hash.slice(1))) begin();
  } catch (error) {
    notify(error.message);
    return;
  }
  await loadMap();
}

start();
