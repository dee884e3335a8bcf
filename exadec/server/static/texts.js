// The texts of the cards: asking for them, showing them or why there is none, and accepting them as exemplars.

import { demandedOptions, showRefusals } from "./demands.js";
import { showTip } from "./map.js";
import { model } from "./model.js";
import { ask, askPatiently } from "./server.js";
import { between, state, whatToSay } from "./state.js";
import { say } from "./tools.js";
import { showWords } from "./words.js";

const MOST_ANSWERS = 300;
const IMPOSSIBLE = [409, 422]; // what the server cannot write, now or later
const answers = new Map(); // body -> answer

/** What is asked of the server for a card; null if something is missing. */
function bodyOf(card) {
  const what = whatToSay();
  if (!what) return null;
  const body = { ...what, explain: true, options: demandedOptions() };
  if (model.told_groups && state.group.trim()) body.group = state.group.trim();
  if (model.takes_guidance && state.strength !== null) body.options.guidance = state.strength;
  if (model.takes_guidance && state.followed !== null) body.options.manner = state.followed ? "followed" : "free";
  if (card.kind === "between") {
    body.mixture = [{ exemplar: card.a, weight: 1 - card.share }, { exemplar: card.b, weight: card.share }];
  } else if (card.kind === "style") body.style = card.style;
  else if (card.kind !== "plain") {
    if (!card.text.trim()) return null;
    body.exemplar = card.text;
  }
  return body;
}

export function writeSoon(card, milliseconds) {
  clearTimeout(card.timer);
  card.timer = setTimeout(() => write(card), milliseconds);
}

export function writeAll() {
  for (const card of state.cards) write(card);
}

export async function write(card) {
  card.asked?.abort();
  const body = bodyOf(card);
  const key = JSON.stringify(body);
  if (!body || answers.has(key)) {
    showAnswer(card, answers.get(key) ?? null, body);
    return;
  }
  card.asked = new AbortController();
  const { signal } = card.asked;
  card.element.setAttribute("aria-busy", "true");
  try {
    const answer = await askPatiently("write", body, signal, (text) => showFault(card, text));
    if (card.kind !== "style") answers.set(key, answer); // a style may be saved anew
    if (answers.size > MOST_ANSWERS) answers.delete(answers.keys().next().value);
    if (!signal.aborted) showAnswer(card, answer, body);
  } catch (error) {
    if (error.name === "AbortError") return;
    showAnswer(card, null, null); // what is there was written for something else
    showFault(card, error.message, true);
    card.refusal = IMPOSSIBLE.includes(error.status) ? error.message : "";
    showRefusals();
  }
}

function showFault({ element }, text, again = false) {
  element.removeAttribute("aria-busy");
  const fault = element.querySelector(".fault");
  fault.textContent = text;
  fault.hidden = !text;
  element.querySelector(".again").hidden = !again;
}

/** `body` is what was asked: the source may be another one by now. */
function showAnswer(card, answer, body) {
  showFault(card, "");
  const changed = answer?.text !== card.answer?.text;
  if (changed) card.accepted = null;
  Object.assign(card, { answer, body, refusal: "" });
  showRefusals();
  card.element.classList.toggle("blank", !answer);
  showWords(card);
  if (!answer) return;
  showAccepted(card);
  if (changed) say(`Text ${state.cards.indexOf(card) + 1}: ${answer.text || "empty"}.`);
  if (card === between()) showTip(answer.text);
}

export async function accept(card) {
  card.element.querySelector(".accept").disabled = true;
  try {
    if (card.accepted) {
      const gone = card.accepted;
      await ask(`exemplars/${gone}`, undefined, { method: "DELETE" }).catch((error) => {
        if (error.status !== 404) throw error; // otherwise somebody else has deleted it
      });
      for (const one of state.cards.filter(({ accepted }) => accepted === gone)) {
        one.accepted = null; // cards with the same text share an exemplar
        showAccepted(one);
      }
      say("No longer an exemplar.");
    } else {
      const group = state.group.trim() || null;
      const { answer: { text: target }, body: { source, table } } = card;
      const { id } = await ask("exemplars", { source, table, target, group });
      if (card.answer?.text === target) card.accepted = id; // otherwise another text is shown by now
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
