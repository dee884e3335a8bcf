// What the texts must and may not say: the panel for it, and what of it the server is asked for.

import { model } from "./model.js";
import { noDemands, state } from "./state.js";
import { $ } from "./tools.js";

const MOST_CHARACTERS = 100_000;
const MOST_REASONS = 3;
const FIELDS = ["beginning", "required", "forbidden", "limit"];
const MEANINGS = {
  off: "Facts are not checked.",
  mark: "Facts that the source does not state are marked.",
  strict: "Only facts that the source states are written.",
};

const phrases = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const facts = () => state.demands.facts || (model.facts === "off" ? "mark" : model.facts);

/** At most so many characters; null without a limit, or if it is none. */
function limit() {
  const text = state.demands.limit.trim();
  return /^\d{1,6}$/.test(text) && Number(text) >= 1 && Number(text) <= MOST_CHARACTERS ? Number(text) : null;
}

/** The options of a request. */
export function demandedOptions() {
  const beginning = state.demands.beginning.trim();
  const [required, forbidden] = [phrases(state.demands.required), phrases(state.demands.forbidden)];
  return {
    ...(beginning && { beginning }),
    ...(required.length && { required }),
    ...(forbidden.length && { forbidden }),
    ...(limit() && { max_characters: limit() }),
    ...(facts() !== model.facts && { facts: facts() }),
  };
}

/** All demands in words. */
export function describeDemands() {
  const beginning = state.demands.beginning.trim();
  return [
    ...(beginning ? [`begins with “${beginning}”`] : []),
    ...phrases(state.demands.required).map((phrase) => `says “${phrase}”`),
    ...phrases(state.demands.forbidden).map((phrase) => `does not say “${phrase}”`),
    ...(limit() ? [`at most ${limit()} characters`] : []),
    ...(state.demands.facts ? [`facts: ${state.demands.facts}`] : []),
  ];
}

export function showDemands() {
  for (const name of FIELDS) if ($(name).value !== state.demands[name]) $(name).value = state.demands[name];
  for (const input of document.getElementsByName("facts")) input.checked = input.value === facts();
  showState();
  if (describeDemands().length) $("demands").open = true;
}

function showState() {
  const demanded = describeDemands();
  const bad = Boolean(state.demands.limit.trim()) && !limit();
  $("facts-help").textContent = MEANINGS[facts()];
  $("limit").setAttribute("aria-invalid", bad);
  $("limit-fault").hidden = !bad;
  $("demanded").textContent = demanded.join(" · ") || "nothing yet";
  $("clear-demands").hidden = !bad && !demanded.length;
  showRefusals();
}

/** Why some texts cannot be written: the cards say it, too, but may be far from the panel. */
export function showRefusals() {
  const refused = state.cards.filter((card) => card.refusal);
  const reasons = [...new Set(refused.map((card) => card.refusal))].slice(0, MOST_REASONS);
  const hidden = !refused.length || !describeDemands().length;
  $("demands-fault").hidden = hidden;
  const count = `${refused.length} of ${state.cards.length} cards ${refused.length === 1 ? "has" : "have"} no text.`;
  $("demands-fault").textContent = hidden ? "" : [count, ...reasons].join(" ");
}

/** `changed` is called after every change of a demand. */
export function listenToDemands(changed) {
  for (const name of FIELDS) $(name).oninput = (event) => change({ [name]: event.target.value });
  for (const input of document.getElementsByName("facts")) input.onchange = () => change({ facts: input.value });
  $("clear-demands").onclick = () => {
    change(noDemands());
    showDemands();
    $("beginning").focus(); // the button is gone
  };

  function change(demands) {
    Object.assign(state.demands, demands);
    showState();
    changed();
  }
}
