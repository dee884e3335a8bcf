// The page of `exadec serve`: a source on the left, exemplars and their texts on the right, and the style map.
// Everything it knows is in `state`, which the address holds; texts are asked for again.

const $ = (id) => document.getElementById(id);
const WAIT = 350; // milliseconds between the last key and a request
const WAIT_DRAGGING = 90;
const RETRIEVED = 3;
const MOST_CARDS = 40;
const MOST_FOUND = 12;
const NEAR = 14; // pixels between the pointer and a point
const MOST_TRIES = 4;

const state = { form: "text", source: "", rows: [["", ""]], group: "", strength: null, cards: [], hidden: [], ends: [] };
let model = { reads_exemplars: true, adapts: false, groups: [] };
let styles = [];
let map = null; // { meaning, labels, points }, once it is there
const places = new Map(); // text -> { x, y }
const answers = new Map(); // body -> answer
let numbered = 0;

// --- Asking the server ---------------------------------------------------------------------------------------------

class Refusal extends Error {
  constructor(status, message, seconds) {
    super(message);
    this.status = status;
    this.seconds = seconds;
  }
}

const MESSAGES = {
  413: "This is too long for the server. Shorten the source or the exemplar.",
  429: "The server is busy. Try again in a moment.",
  503: "The server needed too long. Try again, perhaps with a shorter text.",
};

async function ask(path, body, { method = body === undefined ? "GET" : "POST", signal } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const token = remembered(sessionStorage, "exadec-token");
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(`v1/${path}`, { method, headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server cannot be reached. Is it still running?");
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  if (response.status === 401) {
    await askForToken();
    return ask(path, body, { method, signal });
  }
  const problem = await response.json().catch(() => ({}));
  const said = problem.error ? sentence(problem.error) : `The server answered with ${response.status}.`;
  const seconds = Number(response.headers.get("Retry-After")) || 1;
  throw new Refusal(response.status, MESSAGES[response.status] || said, seconds);
}

/** Ask again while the server is busy; `tell` hears how long it waits. */
async function askPatiently(path, body, signal, tell) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask(path, body, { signal });
    } catch (error) {
      if (error.status !== 429 || tries === MOST_TRIES) throw error;
      tell(`The server is busy; trying again in ${error.seconds} s.`);
      await new Promise((done) => setTimeout(done, 1000 * error.seconds));
      if (signal?.aborted) throw new DOMException("stale", "AbortError");
    }
  }
}

let tokenAsked = null;
function askForToken() {
  tokenAsked ??= new Promise((done) => {
    const dialog = $("token-dialog");
    $("token").value = "";
    dialog.oncancel = (event) => event.preventDefault(); // nothing works without it
    $("token-form").onsubmit = (event) => {
      event.preventDefault();
      remember(sessionStorage, "exadec-token", $("token").value.trim());
      dialog.close();
      tokenAsked = null;
      done();
    };
    dialog.showModal();
  });
  return tokenAsked;
}

// --- Small things --------------------------------------------------------------------------------------------------

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const named = (label) => label.replaceAll("_", " ");
const percent = (share) => `${Math.round(100 * share)} %`;

function make(tag, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name === "kind" ? "class" : name, value);
  element.append(...children);
  return element;
}

function later(milliseconds, what) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => what(...given), milliseconds);
  };
}

// A browser may forbid storage.
function remembered(storage, name) {
  try { return storage.getItem(name); } catch { return null; }
}
function remember(storage, name, value) {
  try { storage.setItem(name, value); } catch { /* then it is asked for again */ }
}

function notify(text, about = "") {
  $("notice").textContent = text || "";
  $("notice").hidden = !text;
  $("notice").dataset.about = about;
}
const notifyOfRetrieval = (text) => notify(text, "retrieval");

const said = [];
const announce = later(400, () => { $("live").textContent = said.splice(0).join(" "); });
function say(text) {
  said.push(text);
  announce();
}

async function copy(text, button) {
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

// --- The address ---------------------------------------------------------------------------------------------------

const KEPT = ["kind", "text", "similarity", "id", "label", "a", "b", "share", "style", "chosen"];

function toAddress() {
  const cards = state.cards.map((card) => Object.fromEntries(KEPT.filter((key) => card[key] != null && card[key] !== "")
    .map((key) => [key, card[key]])));
  const bytes = new TextEncoder().encode(JSON.stringify({ ...state, cards }));
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromAddress(text) {
  const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const found = JSON.parse(new TextDecoder().decode(Uint8Array.from(letters, (letter) => letter.charCodeAt(0))));
  const string = (value) => (typeof value === "string" ? value : "");
  const share = (value) => (Number.isFinite(value) ? Math.min(1, Math.max(0, value)) : 0.5);
  const list = (value) => (Array.isArray(value) ? value : []);
  return {
    form: found.form === "table" ? "table" : "text",
    source: string(found.source),
    rows: list(found.rows).map((row) => [string(row?.[0]), string(row?.[1])]),
    group: string(found.group),
    strength: Number.isFinite(found.strength) ? found.strength : null,
    hidden: list(found.hidden).map(string),
    ends: list(found.ends).map(string).slice(0, 2),
    // A link that was made by hand may name no cards at all: then they are retrieved.
    cards: found.cards === undefined ? null : list(found.cards).slice(0, MOST_CARDS).map((card) => ({
      kind: ["retrieved", "own", "map", "between", "style", "plain"].includes(card?.kind) ? card.kind : "own",
      text: string(card?.text), id: string(card?.id), label: string(card?.label), style: string(card?.style),
      a: string(card?.a), b: string(card?.b), share: share(card?.share), chosen: card?.chosen === true,
      similarity: Number.isFinite(card?.similarity) ? card.similarity : null,
    })),
  };
}

const keep = later(150, () => history.replaceState(null, "", `#${toAddress()}`));

// --- What to say ---------------------------------------------------------------------------------------------------

/** The source as the server reads it; null if there is none yet. */
function whatToSay() {
  if (state.form === "text") return state.source.trim() ? { source: state.source } : null;
  const table = state.rows.map((row) => row.map((cell) => cell.trim())).filter(([name, value]) => name && value);
  return table.length ? { table } : null;
}

function showSource() {
  for (const input of document.getElementsByName("form")) input.checked = input.value === state.form;
  $("as-text").hidden = state.form !== "text";
  $("as-table").hidden = state.form !== "table";
  if ($("source").value !== state.source) $("source").value = state.source;
  $("group").value = state.group;
  $("strength").value = state.strength ?? model.guidance ?? 0;
  $("strength-shown").textContent = Number($("strength").value).toFixed(2);
  showRows();
}

function showRows() {
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

const retrieveSoon = later(WAIT, () => retrieve());
function sourceChanged() {
  keep();
  retrieveSoon();
}

/** New exemplars in the place of those that were retrieved, then all texts. */
let retrieving = null;
async function retrieve() {
  retrieving?.abort();
  retrieving = new AbortController();
  const { signal } = retrieving;
  const what = whatToSay();
  if (!what) {
    for (const card of state.cards) write(card);
    return;
  }
  if (model.reads_exemplars && model.exemplars) {
    try {
      const group = state.group.trim() || null;
      const { exemplars } = await askPatiently("retrieve", { ...what, group, k: RETRIEVED }, signal, notifyOfRetrieval);
      if ($("notice").dataset.about === "retrieval") notify("");
      const found = exemplars.map(({ id, text, similarity }) => ({ kind: "retrieved", id, text, similarity }));
      const chosen = new Set(state.cards.filter((card) => card.chosen).map((card) => card.text));
      for (const card of found) card.chosen = chosen.has(card.text);
      setCards([...found, ...state.cards.filter((card) => card.kind !== "retrieved")]);
    } catch (error) {
      if (error.name === "AbortError") return;
      notifyOfRetrieval(error.message);
    }
  }
  for (const card of state.cards) write(card);
}

// --- Cards: how to say it, and what came of it ---------------------------------------------------------------------

function setCards(cards) {
  for (const card of state.cards) if (!cards.includes(card)) drop(card);
  state.cards = cards;
  for (const card of cards) card.element ??= build(card);
  const box = $("cards");
  // Cards that stay where they are keep the focus.
  cards.forEach((card, place) => {
    if (box.children[place] !== card.element) box.insertBefore(card.element, box.children[place] ?? null);
    card.element.querySelector(".badge").textContent = place + 1;
    card.element.setAttribute("aria-label", `Exemplar ${place + 1}`);
  });
  keep();
  placeSoon();
}

function drop(card) {
  card.asked?.abort();
  clearTimeout(card.timer);
  card.element?.remove();
}

function addCard(card, first = false) {
  if (state.cards.length >= MOST_CARDS) {
    notify(`There are ${MOST_CARDS} cards; remove some first.`);
    return null;
  }
  notify("");
  setCards(first ? [card, ...state.cards] : [...state.cards, card]);
  write(card);
  return card;
}

/** Put an exemplar into the first empty card, or into a new one. */
function useExemplar(point) {
  const card = { kind: "map", text: point.text, id: point.id, label: point.label || point.group || "" };
  const empty = state.cards.findIndex((one) => one.kind === "own" && !one.text.trim());
  if (empty < 0) addCard(card);
  else {
    setCards(state.cards.with(empty, card));
    write(card);
  }
  reveal(card);
  return card;
}

function reveal(card) {
  if (!card?.element?.isConnected) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (matchMedia("(min-width: 60rem)").matches) card.element.scrollIntoView({ block: "nearest", behavior: still ? "auto" : "smooth" });
  card.element.classList.add("new");
  setTimeout(() => card.element.classList.remove("new"), 900);
}

function build(card) {
  const element = $("card").content.firstElementChild.cloneNode(true);
  const part = (name) => element.querySelector(`.${name}`);
  numbered += 1;
  part("exemplar-text").id = `exemplar-${numbered}`;
  part("exemplar-label").htmlFor = `exemplar-${numbered}`;
  part("detail").id = `detail-${numbered}`;
  const simple = ["retrieved", "own", "map"].includes(card.kind);
  part("exemplar-text").hidden = !simple;
  part("exemplar-label").hidden = !simple;
  part("between").hidden = card.kind !== "between";
  part("tick").classList.toggle("fixed", card.kind === "plain" || !model.adapts);
  part("chosen").checked = Boolean(card.chosen);
  part("chosen").hidden = card.kind === "plain" || !model.adapts;
  part("chosen").onchange = (event) => { card.chosen = event.target.checked; keep(); };
  part("remove").hidden = card.kind === "plain";
  part("remove").onclick = () => remove(card);
  part("copy").onclick = (event) => copy(card.answer.text, event.currentTarget);
  part("accept").onclick = () => accept(card);
  part("again").onclick = () => write(card);
  if (simple) buildExemplar(card, element, part("exemplar-text"));
  if (card.kind === "between") buildBetween(card, part);
  if (card.kind === "style") buildStyle(card, part("parts"));
  part("written").onkeydown = walk;
  part("written").onpointerleave = () => { if (!part("written").contains(document.activeElement)) showTally(card); };
  part("written").addEventListener("focusout", () => showTally(card));
  showOrigin(card, element);
  return element;
}

function buildExemplar(card, element, text) {
  text.value = card.text;
  text.oninput = () => {
    Object.assign(card, { kind: "own", text: text.value, id: "", label: "", similarity: null });
    showOrigin(card, element);
    keep();
    placeSoon();
    writeSoon(card, WAIT);
  };
}

function buildBetween(card, part) {
  part("end-a").textContent = card.a;
  part("end-b").textContent = card.b;
  part("share").oninput = (event) => setShare(card, Number(event.target.value));
  part("share").value = card.share;
  part("share-shown").textContent = percent(card.share);
}

function buildStyle(card, list) {
  const style = styles.find((one) => one.name === card.style);
  list.hidden = false;
  list.replaceChildren(...(style?.exemplars ?? []).slice(0, 5).map(({ exemplar }) => make("li", { text: exemplar })));
  if (style?.exemplars.length > 5) list.append(make("li", { text: `and ${style.exemplars.length - 5} more` }));
}

function setShare(card, share) {
  card.share = Math.round(20 * Math.min(1, Math.max(0, share))) / 20;
  card.element.querySelector(".share").value = card.share;
  card.element.querySelector(".share-shown").textContent = percent(card.share);
  keep();
  drawMarks();
  writeSoon(card, WAIT_DRAGGING);
}

function showOrigin(card, element) {
  const names = {
    retrieved: `Retrieved · similarity ${card.similarity?.toFixed(2) ?? "unknown"}`,
    own: card.text?.trim() ? "Your own" : "Empty",
    map: card.label ? `From the map · ${named(card.label)}` : "From the map",
    between: "Between two",
    style: `House style · ${card.style}`,
    plain: "Without exemplar",
  };
  element.querySelector(".origin").textContent = names[card.kind];
}

function remove(card) {
  const place = state.cards.indexOf(card);
  setCards(state.cards.filter((one) => one !== card));
  drawMarks();
  (state.cards[Math.min(place, state.cards.length - 1)]?.element.querySelector(".remove") ?? $("add-card")).focus();
}

/** What is asked of the server for a card; null if something is missing. */
function bodyOf(card) {
  const what = whatToSay();
  if (!what) return null;
  const body = { ...what, explain: true };
  if (model.told_groups && state.group.trim()) body.group = state.group.trim();
  body.options = {};
  if (model.takes_guidance && state.strength !== null) body.options.guidance = state.strength;
  if (model.facts === "off") body.options.facts = "mark"; // a strict server stays strict
  if (card.kind === "between") {
    body.mixture = [{ exemplar: card.a, weight: 1 - card.share }, { exemplar: card.b, weight: card.share }];
  } else if (card.kind === "style") body.style = card.style;
  else if (card.kind !== "plain") {
    if (!card.text.trim()) return null;
    body.exemplar = card.text;
  }
  return body;
}

function writeSoon(card, milliseconds) {
  clearTimeout(card.timer);
  card.timer = setTimeout(() => write(card), milliseconds);
}

async function write(card) {
  card.asked?.abort();
  const body = bodyOf(card);
  if (!body) {
    showAnswer(card, null);
    return;
  }
  const key = JSON.stringify(body);
  if (answers.has(key)) {
    showAnswer(card, answers.get(key));
    return;
  }
  const asked = new AbortController();
  card.asked = asked;
  card.element.setAttribute("aria-busy", "true");
  try {
    const answer = await askPatiently("write", body, asked.signal, (text) => showFault(card, text));
    if (card.kind !== "style") answers.set(key, answer); // a style may be saved anew
    if (answers.size > 300) answers.delete(answers.keys().next().value);
    if (!asked.signal.aborted) showAnswer(card, answer);
  } catch (error) {
    if (error.name === "AbortError") return;
    showAnswer(card, null); // what is there was written for something else
    showFault(card, error.message, true);
  }
}

function showFault(card, text, again = false) {
  card.element.removeAttribute("aria-busy");
  const fault = card.element.querySelector(".fault");
  fault.textContent = text;
  fault.hidden = !text;
  card.element.querySelector(".again").hidden = !again;
}

function showAnswer(card, answer) {
  const { element } = card;
  const part = (name) => element.querySelector(`.${name}`);
  showFault(card, "");
  const changed = answer?.text !== card.answer?.text;
  if (changed) card.accepted = null;
  card.answer = answer;
  element.classList.toggle("blank", !answer);
  const focused = element.querySelector(".written :focus");
  part("written").replaceChildren(...(answer ? wordsOf(card, answer) : []));
  if (focused) part("written").querySelector("[tabindex='0']")?.focus();
  showTally(card);
  if (!answer) return;
  showAccepted(card);
  if (changed) say(`Text ${state.cards.indexOf(card) + 1}: ${answer.text || "empty"}.`);
  if (card.kind === "between" && card === between()) showTip(answer.text);
}

/** What stands below a text while no word of it is looked at. */
function showTally(card) {
  const { answer } = card;
  const count = (test) => answer.words.filter(test).length;
  const notes = [];
  if (answer) {
    const leaks = count((word) => word.origin === "exemplar");
    const faults = count((word) => word.fact === "unlicensed");
    if (leaks) notes.push(`${leaks} ${leaks === 1 ? "word" : "words"} from the exemplar only`);
    if (faults) notes.push(`${faults} ${faults === 1 ? "word" : "words"} of facts without licence`);
    if (answer.truncated) notes.push("the end of the source was not read");
    if (answer.exemplar_truncated) notes.push("the end of the exemplar was not read");
  }
  card.element.querySelector(".detail").replaceChildren(make("p", { text: notes.join(" · ") }));
}

const MEANINGS = { source: "from the source", exemplar: "from the exemplar only", unlicensed: "fact without licence" };

function wordsOf(card, answer) {
  const parts = [];
  let behind = 0;
  answer.words.forEach((word, number) => {
    parts.push(answer.text.slice(behind, word.start));
    const kind = word.fact === "unlicensed" ? "unlicensed" : word.origin;
    const detail = card.element.querySelector(".detail");
    const shown = make("span", { kind: `word ${kind}`, role: "button", tabindex: number ? -1 : 0, text: word.text });
    shown.setAttribute("aria-describedby", detail.id);
    if (MEANINGS[kind]) shown.setAttribute("aria-label", `${word.text}, ${MEANINGS[kind]}`);
    const show = () => showDetail(detail, word, kind);
    shown.onfocus = show;
    shown.onpointerenter = show;
    parts.push(shown);
    behind = word.end;
  });
  parts.push(answer.text.slice(behind));
  if (!answer.text) parts.push(make("span", { kind: "soft", text: "The model wrote nothing." }));
  return parts;
}

function showDetail(detail, word, kind) {
  const facts = [make("b", { text: word.text }), ` ${MEANINGS[kind] ?? "the model’s own"}`];
  if (word.copied === null) facts.push(" · this model does not copy");
  else facts.push(" · copied ", meter(word.copied));
  const attended = word.attended.map(({ text, weight }) => make("span", { kind: "attended" }, `${text} `, meter(weight)));
  detail.replaceChildren(make("p", {}, ...facts));
  if (attended.length) detail.append(make("p", {}, make("span", { kind: "soft", text: "attention " }), ...attended));
}

function meter(share) {
  const bar = make("i");
  bar.style.setProperty("--share", share);
  return make("span", { kind: "meter" }, bar, percent(share));
}

/** Arrow keys go from word to word, so that a text is one stop of the Tab key. */
function walk(event) {
  const words = [...event.currentTarget.querySelectorAll(".word")];
  const here = words.indexOf(document.activeElement);
  const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: words.length - 1 }[event.key];
  if (here < 0 || to === undefined || !words[to]) return;
  event.preventDefault();
  words[here].tabIndex = -1;
  words[to].tabIndex = 0;
  words[to].focus();
}

async function accept(card) {
  const button = card.element.querySelector(".accept");
  button.disabled = true;
  try {
    if (card.accepted) {
      await ask(`exemplars/${card.accepted}`, undefined, { method: "DELETE" });
      card.accepted = null;
      say("No longer an exemplar.");
    } else {
      const group = state.group.trim() || null;
      const { id } = await ask("exemplars", { ...whatToSay(), target: card.answer.text, group });
      card.accepted = id;
      say(`Accepted: it is exemplar ${id} now.`);
    }
  } catch (error) {
    showFault(card, error.message);
  }
  showAccepted(card);
}

function showAccepted(card) {
  const button = card.element.querySelector(".accept");
  button.disabled = !card.answer?.text || !model.exemplars;
  button.textContent = card.accepted ? "Accepted ✓ undo" : "Accept";
  button.classList.toggle("done", Boolean(card.accepted));
}

// --- Export --------------------------------------------------------------------------------------------------------

function toMarkdown() {
  const cell = (text) => String(text ?? "").replace(/\s+/g, " ").replaceAll("\\", "\\\\").replaceAll("|", "\\|").trim();
  const what = whatToSay() ?? { source: "" };
  const source = what.source ?? what.table.map(([name, value]) => `${name}: ${value}`).join("; ");
  const exemplar = (card) => ({
    between: `${percent(1 - (card.share ?? 0))} ${card.a}; ${percent(card.share ?? 0)} ${card.b}`,
    style: `house style ${card.style}`,
    plain: "none",
  })[card.kind] ?? card.text;
  const lines = state.cards.filter((card) => card.answer).map((card) => {
    const words = (test) => card.answer.words.filter(test).map((word) => word.text).join(", ");
    const leaks = words((word) => word.origin === "exemplar");
    const faults = words((word) => word.fact === "unlicensed");
    const similarity = card.similarity?.toFixed(2) ?? "";
    return `| ${[exemplar(card), similarity, card.answer.text, leaks, faults].map(cell).join(" | ")} |`;
  });
  const head = "| exemplar | similarity | text | from the exemplar only | facts without licence |\n|---|---:|---|---|---|";
  return `**Source:** ${cell(source)}\n\n${head}\n${lines.join("\n")}\n`;
}

function openExport() {
  const text = toMarkdown();
  $("markdown").value = text;
  URL.revokeObjectURL($("save-markdown").href);
  $("save-markdown").href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  $("export-dialog").showModal();
}

// --- The style map -------------------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = [
  "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "M-2.7-2.7h5.4v5.4h-5.4z", "M0-3.6L3.4 2.6h-6.8z", "M0-3.8L3.8 0 0 3.8-3.8 0z",
  "M0 3.6L3.4-2.6h-6.8z", "M-1.2-3.6h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4v-2.4h2.4z",
  "M-3.4-1.7l1.7-1.7L0-1.7l1.7-1.7 1.7 1.7L1.7 0l1.7 1.7-1.7 1.7L0 1.7l-1.7 1.7-1.7-1.7L-1.7 0z", "M-3.6 0L2.6-3.4v6.8z",
  "M3.6 0L-2.6-3.4v6.8z", "M0-4.2l1.2 2.9 3.1.2-2.4 2 .8 3-2.7-1.6-2.7 1.6.8-3-2.4-2 3.1-.2z",
];
const REST = "M-1.8 0a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0";
let size = { width: 0, height: 0 };
let scale = null; // { x, y, wide, high } of the plane

const draw = (tag, attributes, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const between = () => state.cards.findLast((card) => card.kind === "between") ?? null;
const toPixels = ({ x, y }) => [
  18 + ((x - scale.x) / scale.wide) * (size.width - 36),
  18 + (1 - (y - scale.y) / scale.high) * (size.height - 36),
];

async function loadMap() {
  if (!model.adapts || !model.exemplars) {
    $("map-help").textContent = model.adapts
      ? "There is no map: this model was opened without its exemplars."
      : `There is no map: this model (${model.variant}) does not adapt to an exemplar by coefficients.`;
    return;
  }
  try {
    map = await askPatiently("map", undefined, undefined, notify);
  } catch (error) {
    $("map-help").textContent = error.message;
    return;
  }
  const range = (key) => [Math.min(...map.points.map((one) => one[key])), Math.max(...map.points.map((one) => one[key]))];
  const [[left, right], [low, high]] = [range("x"), range("y")];
  scale = { x: left, y: low, wide: right - left || 1, high: high - low || 1 };
  for (const point of map.points) places.set(point.text, point);
  $("map-frame").hidden = false;
  $("finder").hidden = false;
  showLegend();
  drawMap();
  placeSoon();
}

function shapeOf(label, kind = "") {
  const number = map.labels.indexOf(label);
  return draw("path", { d: SHAPES[number] ?? REST, class: `${number < 0 ? "rest" : `label-${number}`} ${kind}` });
}

function showLegend() {
  const labels = map.points.some((point) => point.label === null) ? [...map.labels, ""] : map.labels;
  if (labels.length < 2) return;
  $("map-legend").replaceChildren(...labels.map((label) => {
    const button = make("button", { type: "button", kind: "quiet", "aria-pressed": !state.hidden.includes(label) });
    const icon = draw("svg", { viewBox: "-5 -5 10 10", "aria-hidden": "true" }, shapeOf(label));
    button.append(icon, named(label) || `other ${map.meaning}s`);
    button.onclick = () => {
      state.hidden = state.hidden.includes(label) ? state.hidden.filter((one) => one !== label) : [...state.hidden, label];
      button.setAttribute("aria-pressed", !state.hidden.includes(label));
      drawMap();
      keep();
    };
    return button;
  }));
}

const shownPoints = () => map.points.filter((point) => !state.hidden.includes(point.label ?? ""));

function drawMap() {
  if (!map) return;
  const width = $("map-frame").clientWidth;
  size = { width, height: Math.round(Math.min(0.82 * width, 420)) };
  $("map").setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  const points = draw("g", { class: "points" });
  for (const point of shownPoints()) {
    const shape = shapeOf(point.label);
    const [x, y] = toPixels(point);
    shape.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    points.append(shape);
  }
  $("map").replaceChildren(points, draw("g", { id: "marks" }));
  drawMarks();
}

/** Rings around the exemplars of the cards, and the line between two ends. */
function drawMarks(rubber = null) {
  const marks = $("marks");
  if (!map || !marks) return;
  marks.replaceChildren();
  const card = between();
  if (card && places.has(card.a) && places.has(card.b)) {
    const [[ax, ay], [bx, by]] = [toPixels(places.get(card.a)), toPixels(places.get(card.b))];
    const [x, y] = [ax + card.share * (bx - ax), ay + card.share * (by - ay)];
    marks.append(
      draw("line", { x1: ax, y1: ay, x2: bx, y2: by, class: "line" }),
      draw("circle", { cx: ax, cy: ay, r: 6, class: "ring" }),
      draw("circle", { cx: bx, cy: by, r: 6, class: "ring" }),
      draw("circle", { cx: x, cy: y, r: 9, class: "handle" }),
    );
  }
  if (rubber) marks.append(draw("line", { x1: rubber[0], y1: rubber[1], x2: rubber[2], y2: rubber[3], class: "line" }));
  state.cards.forEach((one, number) => {
    const place = places.get(one.text);
    if (!place || one.kind === "between" || one.kind === "style") return;
    const [x, y] = toPixels(place);
    const text = draw("text", { x, y: y + 3.5 });
    text.textContent = number + 1;
    marks.append(draw("g", { class: "badge-mark" }, draw("circle", { cx: x, cy: y, r: 8 }), text));
  });
}

const placeSoon = later(WAIT, async () => {
  if (!map) return;
  const texts = [...new Set(state.cards.flatMap((card) => [card.text, card.a, card.b]))].filter((one) => one?.trim());
  const unknown = texts.filter((text) => !places.has(text)).slice(0, 100);
  if (unknown.length) {
    try {
      const found = await ask("place", { texts: unknown });
      unknown.forEach((text, number) => places.set(text, found.places[number]));
    } catch { /* the map is an aid: without a place, there is no ring */ }
  }
  drawMarks();
});

function nearest(event, most = NEAR) {
  const box = $("map").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let best = null;
  for (const point of shownPoints()) {
    const [px, py] = toPixels(point);
    const distance = Math.hypot(px - x, py - y);
    if (distance <= (best?.distance ?? most)) best = { point, distance };
  }
  return best?.point ?? null;
}

function showTip(text) {
  $("map-tip").textContent = text;
}

/** A press on a point and a release on another one make a card between them; on the same one, they use it. */
function press(event) {
  const svg = $("map");
  const card = between();
  if (event.target.closest(".handle") && card) {
    event.preventDefault();
    svg.setPointerCapture(event.pointerId);
    svg.onpointermove = (moved) => setShare(card, shareAt(moved, card));
    finish(() => {});
    return;
  }
  const start = nearest(event);
  if (!start) return;
  event.preventDefault();
  svg.setPointerCapture(event.pointerId);
  const [x, y] = toPixels(start);
  svg.onpointermove = (moved) => {
    const box = svg.getBoundingClientRect();
    drawMarks([x, y, moved.clientX - box.left, moved.clientY - box.top]);
    showTip(nearest(moved)?.text ?? start.text);
  };
  finish((released) => {
    const end = nearest(released);
    drawMarks();
    if (end === start) useExemplar(start);
    else if (end) goBetween(start, end);
  });
}

function finish(done) {
  const svg = $("map");
  const end = (event) => {
    svg.onpointermove = hover;
    svg.onpointerup = svg.onpointercancel = null;
    if (event.type === "pointerup") done(event);
    else drawMarks();
  };
  svg.onpointerup = svg.onpointercancel = end;
}

function hover(event) {
  const point = nearest(event);
  $("map").classList.toggle("over", Boolean(point));
  const card = between();
  const whose = named(point?.label ?? point?.group ?? "");
  showTip(point ? `${whose}${whose && ": "}${point.text}` : card?.answer?.text ?? "");
}

function shareAt(event, card) {
  const box = $("map").getBoundingClientRect();
  const [[ax, ay], [bx, by]] = [toPixels(places.get(card.a)), toPixels(places.get(card.b))];
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  return ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1);
}

function goBetween(a, b) {
  const old = between();
  const card = { kind: "between", a: a.text, b: b.text, share: 0.5 };
  if (old) {
    setCards(state.cards.with(state.cards.indexOf(old), card));
    write(card);
  } else addCard(card, true);
  reveal(card);
  drawMarks();
}

// The same by keyboard: a list of exemplars.
function find() {
  const wanted = $("find").value.trim().toLowerCase();
  const fits = (point) => [point.text, point.group, point.label].some((one) => one?.toLowerCase().includes(wanted));
  const found = wanted ? map.points.filter(fits) : [];
  $("found").replaceChildren(...found.slice(0, MOST_FOUND).map((point) => {
    const use = make("button", { type: "button", kind: "use", text: point.text });
    use.onclick = () => useExemplar(point);
    const ends = ["from", "to"].map((name, side) => {
      const button = make("button", { type: "button", kind: "quiet", text: name, "aria-label": `Write ${name} “${point.text}”` });
      button.setAttribute("aria-pressed", state.ends[side] === point.text);
      button.onclick = () => chooseEnd(side, point);
      return button;
    });
    return make("li", {}, use, ...ends);
  }));
  if (wanted) say(`${found.length} exemplars found.`);
}

function chooseEnd(side, point) {
  state.ends[side] = point.text;
  keep();
  const [a, b] = state.ends;
  for (const row of $("found").children) {
    const text = row.querySelector(".use").textContent;
    [...row.querySelectorAll(".quiet")].forEach((button, one) => button.setAttribute("aria-pressed", state.ends[one] === text));
  }
  if (a && b && a !== b) goBetween({ text: a }, { text: b });
  else say(side ? "Now choose where to write from." : "Now choose where to write to.");
}

// --- House styles --------------------------------------------------------------------------------------------------

async function loadStyles() {
  if (!model.adapts) return;
  $("styles-part").hidden = false;
  try {
    ({ styles } = await ask("styles"));
  } catch (error) {
    notify(error.message);
  }
  $("styles").replaceChildren(...styles.map(({ name, exemplars }) => {
    const use = make("button", { type: "button", kind: "use", text: name });
    use.append(make("span", { kind: "soft", text: ` ${exemplars.length} exemplar${exemplars.length === 1 ? "" : "s"}` }));
    use.onclick = () => reveal(addCard({ kind: "style", style: name }));
    const away = make("button", { type: "button", kind: "quiet", text: "✕", "aria-label": `Remove the style ${name}` });
    away.onclick = () => changeStyles(() => ask(`styles/${encodeURIComponent(name)}`, undefined, { method: "DELETE" }), "Removed.");
    return make("li", {}, use, away);
  }));
}

async function changeStyles(change, done) {
  try {
    await change();
    notify("");
    say(done);
    await loadStyles();
  } catch (error) {
    notify(error.message);
  }
}

/** The exemplars of a card, with weights that sum to 1. */
function partsOf(card) {
  if (card.kind === "between") return [[card.a, 1 - card.share], [card.b, card.share]];
  if (card.kind !== "style") return card.text.trim() ? [[card.text, 1]] : [];
  const parts = styles.find((one) => one.name === card.style)?.exemplars ?? [];
  const total = parts.reduce((sum, part) => sum + part.weight, 0);
  return parts.map((part) => [part.exemplar, part.weight / total]);
}

function saveStyle(event) {
  event.preventDefault();
  const name = $("style-name").value.trim();
  const parts = state.cards.filter((card) => card.chosen).flatMap(partsOf);
  if (!parts.length) {
    notify("Tick one card or more first: the style is the mean of their exemplars.");
    return;
  }
  const exemplars = parts.map(([exemplar, weight]) => ({ exemplar, weight }));
  const save = () => ask(`styles/${encodeURIComponent(name)}`, { exemplars }, { method: "PUT" });
  changeStyles(save, `Saved the style ${name}.`).then(() => {
    for (const card of state.cards) if (card.kind === "style" && card.style === name) write(card);
  });
}

// --- Starting ------------------------------------------------------------------------------------------------------

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").value = theme;
  remember(localStorage, "exadec-theme", theme);
}

function listen() {
  $("source").oninput = (event) => { state.source = event.target.value; sourceChanged(); };
  for (const input of document.getElementsByName("form")) {
    input.onchange = () => { state.form = input.value; showSource(); sourceChanged(); };
  }
  $("add-row").onclick = () => { state.rows.push(["", ""]); showRows(); $("rows").lastElementChild.querySelector("input").focus(); };
  $("examples").onchange = (event) => {
    if (!event.target.value) return;
    Object.assign(state, { form: "text", source: event.target.value });
    showSource();
    sourceChanged();
  };
  $("group").onchange = (event) => { state.group = event.target.value; sourceChanged(); };
  $("strength").oninput = (event) => {
    state.strength = Number(event.target.value);
    $("strength-shown").textContent = state.strength.toFixed(2);
    keep();
    for (const card of state.cards) writeSoon(card, WAIT);
  };
  $("more").onclick = () => retrieve();
  $("add-card").onclick = () => addCard({ kind: "own", text: "" })?.element.querySelector("textarea").focus();
  $("link").onclick = (event) => copy(`${location.href.split("#")[0]}#${toAddress()}`, event.currentTarget);
  $("export").onclick = openExport;
  $("copy-markdown").onclick = (event) => copy($("markdown").value, event.currentTarget);
  $("close-export").onclick = () => $("export-dialog").close();
  $("theme").onchange = (event) => setTheme(event.target.value);
  $("save-style").onsubmit = saveStyle;
  $("find").oninput = later(150, find);
  $("map").onpointerdown = press;
  $("map").onpointermove = hover;
  $("map").onpointerleave = () => showTip(between()?.answer?.text ?? "");
  addEventListener("resize", later(150, drawMap));
  addEventListener("hashchange", restore);
}

/** What the address holds; false if it holds nothing. */
function restore() {
  const text = location.hash.slice(1);
  if (!text || document.getElementById(text) || text === toAddress()) return false;
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
  setCards(cards ?? firstCards());
  drawMap();
  if (cards === null) retrieve();
  else for (const card of state.cards) write(card);
  return true;
}

const firstCards = () => [model.reads_exemplars ? { kind: "own", text: "" } : { kind: "plain" }];

function begin(examples) {
  setCards(firstCards());
  state.source = examples[0]?.source ?? "";
  showSource();
  retrieve();
}

function describe() {
  const count = model.exemplars?.toLocaleString("en") ?? "no";
  $("model").textContent = `${model.variant} · ${count} exemplars · ${model.policy}`;
  $("strength-field").hidden = !model.takes_guidance;
  $("group-field").hidden = !model.groups.length;
  $("groups").append(...model.groups.slice(0, 5000).map((value) => make("option", { value })));
  $("more").hidden = !model.reads_exemplars || !model.exemplars;
  $("add-card").hidden = !model.reads_exemplars;
}

async function start() {
  setTheme(remembered(localStorage, "exadec-theme") || "auto");
  listen();
  try {
    model = await ask("model");
    const { examples } = await ask("examples");
    describe();
    $("examples-field").hidden = !examples.length;
    $("examples").append(...examples.map(({ source }) => make("option", { value: source, text: source })));
    await loadStyles();
    if (!restore()) begin(examples);
  } catch (error) {
    notify(error.message);
    return;
  }
  await loadMap();
}

start();
