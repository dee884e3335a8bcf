// Everything the page knows, and the address that holds it; texts are asked for again.

import { later } from "./tools.js";

export const MOST_CARDS = 40;

/** As they are typed: phrases one a line, and the limit in characters, which need not be a number. */
export const noDemands = () => ({ beginning: "", required: "", forbidden: "", limit: "", facts: "" });

export const state = {
  form: "text", source: "", rows: [["", ""]], group: "", strength: null, followed: null, demands: noDemands(),
  cards: [], hidden: [], ends: [],
};

/** The source as the server reads it; null if there is none yet. */
export function whatToSay() {
  if (state.form === "text") return state.source.trim() ? { source: state.source } : null;
  const table = state.rows.map((row) => row.map((cell) => cell.trim())).filter(([name, value]) => name && value);
  return table.length ? { table } : null;
}

/** The card that the line on the map belongs to. */
export const between = () => state.cards.findLast((card) => card.kind === "between") ?? null;

const KINDS = ["retrieved", "own", "map", "between", "style", "plain"];
const FACTS = ["off", "mark", "strict"];
const KEPT = ["kind", "text", "similarity", "id", "label", "a", "b", "share", "style", "chosen"];

export function toAddress() {
  const isKept = (card) => (key) => card[key] != null && card[key] !== "";
  const cards = state.cards.map((card) => Object.fromEntries(KEPT.filter(isKept(card)).map((key) => [key, card[key]])));
  const bytes = new TextEncoder().encode(JSON.stringify({ ...state, cards }));
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export function fromAddress(text) {
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
    followed: typeof found.followed === "boolean" ? found.followed : null,
    demands: {
      beginning: string(found.demands?.beginning), required: string(found.demands?.required),
      forbidden: string(found.demands?.forbidden), limit: string(found.demands?.limit),
      facts: FACTS.includes(found.demands?.facts) ? found.demands.facts : "",
    },
    hidden: list(found.hidden).map(string),
    ends: list(found.ends).map(string).slice(0, 2),
    // A link that was made by hand may name no cards at all: then they are retrieved.
    cards: found.cards === undefined ? null : list(found.cards).slice(0, MOST_CARDS).map((card) => ({
      kind: KINDS.includes(card?.kind) ? card.kind : "own",
      text: string(card?.text), id: string(card?.id), label: string(card?.label), style: string(card?.style),
      a: string(card?.a), b: string(card?.b), share: share(card?.share), chosen: card?.chosen === true,
      similarity: Number.isFinite(card?.similarity) ? card.similarity : null,
    })),
  };
}

export const keep = later(150, () => history.replaceState(null, "", `#${toAddress()}`));
