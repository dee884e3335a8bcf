// The words of a text on its card: where each comes from, what the model attended to, and the sum of it.

import { make, percent } from "./tools.js";

const MEANINGS = { source: "from the source", exemplar: "from the exemplar only", unlicensed: "unlicensed fact" };

export function showWords(card) {
  const { answer, element } = card;
  const written = element.querySelector(".written");
  const wasFocused = written.querySelector(":focus");
  written.replaceChildren(...(answer ? wordsOf(answer, element.querySelector(".detail")) : []));
  if (wasFocused) written.querySelector("[tabindex='0']")?.focus();
  showTally(card);
}

/** A word can be a leak and part of an unlicensed fact at once: then it has the marks of both. */
function kindsOf({ origin, fact }) {
  if (fact !== "unlicensed") return [origin];
  return origin === "other" ? [fact] : [origin, fact];
}

const meaningsOf = (kinds) => kinds.map((kind) => MEANINGS[kind]).filter(Boolean).join(", ");

function wordsOf(answer, detail) {
  const parts = [];
  const letters = [...answer.text]; // places count characters, of which JavaScript gives some two units
  let behind = 0;
  answer.words.forEach((word, number) => {
    parts.push(letters.slice(behind, word.start).join(""));
    const kinds = kindsOf(word);
    const shown = make("span", { kind: ["word", ...kinds].join(" "), role: "button", tabindex: number ? -1 : 0 });
    // An element has one line, so that a word with two marks needs another element.
    shown.append(kinds.length > 1 ? make("span", { kind: "fact", text: word.text }) : word.text);
    shown.setAttribute("aria-describedby", detail.id);
    const meanings = meaningsOf(kinds);
    if (meanings) shown.setAttribute("aria-label", `${word.text}, ${meanings}`);
    shown.onfocus = shown.onpointerenter = () => showDetail(detail, word, meanings);
    parts.push(shown);
    behind = word.end;
  });
  parts.push(letters.slice(behind).join(""));
  if (!answer.text) parts.push(make("span", { kind: "soft", text: "The model wrote nothing." }));
  return parts;
}

function showDetail(detail, word, meanings) {
  const facts = [make("b", { text: word.text }), ` ${meanings || "the model’s own"}`];
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

/** What stands below a text while no word of it is looked at. */
export function showTally({ answer, element }) {
  const notes = [];
  if (answer) {
    const count = (test, what) => {
      const number = answer.words.filter(test).length;
      if (number) notes.push(`${number} ${number === 1 ? "word" : "words"} ${what}`);
    };
    count((word) => word.origin === "exemplar", "from the exemplar only");
    count((word) => word.fact === "unlicensed", "of unlicensed facts");
    if (answer.truncated) notes.push("the end of the source was not read");
    if (answer.exemplar_truncated) notes.push("the end of the exemplar was not read");
  }
  element.querySelector(".detail").replaceChildren(make("p", { text: notes.join(" · ") }));
}

/** Arrow keys go from word to word, so that a text is one stop of the Tab key. */
export function walk(event) {
  const words = [...event.currentTarget.querySelectorAll(".word")];
  const here = words.indexOf(document.activeElement);
  const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: words.length - 1 }[event.key];
  if (here < 0 || to === undefined || !words[to]) return;
  event.preventDefault();
  words.forEach((word, place) => { word.tabIndex = place === to ? 0 : -1; });
  words[to].focus();
}
