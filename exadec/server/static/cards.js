// The cards: one for each way how to say it. They are made, put in order, changed and removed here.

import { showRefusals } from "./demands.js";
import { drawMarks, placeSoon } from "./map.js";
import { exemplarsOf, model } from "./model.js";
import { between, keep, MOST_CARDS, state } from "./state.js";
import { accept, write, writeSoon } from "./texts.js";
import { $, copy, make, named, notify, percent, WAIT } from "./tools.js";
import { showTally, walk } from "./words.js";

const WAIT_DRAGGING = 90;
const MOST_PARTS = 5; // exemplars of a house style that its card shows

export const firstCards = () => [model.reads_exemplars ? { kind: "own", text: "" } : { kind: "plain" }];

export function setCards(cards) {
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
  showRefusals();
}

function drop(card) {
  card.asked?.abort();
  clearTimeout(card.timer);
  card.element?.remove();
}

export function addCard(card, first = false) {
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
export function useExemplar(point) {
  const card = { kind: "map", text: point.text, id: point.id, label: point.label || point.group || "" };
  putCard(card, state.cards.findIndex((one) => one.kind === "own" && !one.text.trim()));
}

export function goBetween(a, b) {
  putCard({ kind: "between", a: a.text, b: b.text, share: 0.5 }, state.cards.indexOf(between()), true);
  drawMarks();
}

/** In the place of another card; below 0, as a new one. */
function putCard(card, place, first) {
  if (place < 0) addCard(card, first);
  else {
    setCards(state.cards.with(place, card));
    write(card);
  }
  reveal(card);
}

export function reveal(card) {
  if (!card?.element?.isConnected) return;
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  // On a narrow window the map is below the cards, and a finger is about to move the handle on it.
  const stays = card.kind === "between" && !matchMedia("(min-width: 60rem)").matches;
  if (!stays) card.element.scrollIntoView({ block: "nearest", behavior });
  card.element.classList.add("new");
  setTimeout(() => card.element.classList.remove("new"), 900);
}

let numbered = 0;
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
  part("parts").hidden = card.kind !== "style";
  const fixed = card.kind === "plain" || !model.adapts;
  part("tick").classList.toggle("fixed", fixed);
  part("chosen").checked = Boolean(card.chosen);
  part("chosen").hidden = fixed;
  part("chosen").onchange = (event) => { card.chosen = event.target.checked; keep(); };
  part("remove").hidden = card.kind === "plain";
  part("remove").onclick = () => remove(card);
  part("copy").onclick = (event) => copy(card.answer.text, event.currentTarget);
  part("accept").onclick = () => accept(card);
  if (simple) buildExemplar(card, element, part("exemplar-text"));
  if (card.kind === "between") buildBetween(card, part);
  if (card.kind === "style") showParts(card, element);
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

function showParts(card, element) {
  const list = element.querySelector(".parts");
  const exemplars = exemplarsOf(card.style);
  list.replaceChildren(...exemplars.slice(0, MOST_PARTS).map(({ exemplar }) => make("li", { text: exemplar })));
  if (exemplars.length > MOST_PARTS) list.append(make("li", { text: `and ${exemplars.length - MOST_PARTS} more` }));
}

/** After a house style was saved, its cards show it and are written anew. */
export function styleChanged(name) {
  for (const card of state.cards.filter((one) => one.kind === "style" && one.style === name)) {
    showParts(card, card.element);
    write(card);
  }
}

export function setShare(card, share) {
  card.share = Math.round(20 * Math.min(1, Math.max(0, share))) / 20;
  card.element.querySelector(".share").value = card.share;
  card.element.querySelector(".share-shown").textContent = percent(card.share);
  keep();
  drawMarks();
  writeSoon(card, WAIT_DRAGGING);
}

function showOrigin(card, element) {
  const names = {
    retrieved: card.similarity == null ? "Retrieved earlier" : `Retrieved · similarity ${card.similarity.toFixed(2)}`,
    own: card.text?.trim() ? "Your own" : "Empty",
    map: card.label ? `From the map · ${named(card.label)}` : "From the map",
    between: "Between two",
    style: `House style · ${card.style}`,
    plain: "Without exemplar",
  };
  element.querySelector(".origin").textContent = names[card.kind];
}

/** Their source is another one by now, so their similarities say nothing. */
export function forgetSimilarities() {
  for (const card of state.cards.filter(({ kind }) => kind === "retrieved")) {
    card.similarity = null;
    showOrigin(card, card.element);
  }
  keep();
}

function remove(card) {
  const place = state.cards.indexOf(card);
  setCards(state.cards.filter((one) => one !== card));
  drawMarks();
  (state.cards[Math.min(place, state.cards.length - 1)]?.element.querySelector(".remove") ?? $("add-card")).focus();
}
