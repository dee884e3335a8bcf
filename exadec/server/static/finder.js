// The style map by keyboard: a list of exemplars to use, and to write from and to.

import { goBetween, useExemplar } from "./cards.js";
import { map } from "./map.js";
import { keep, state } from "./state.js";
import { $, make, say } from "./tools.js";

const MOST_FOUND = 12;

export function find() {
  const wanted = $("find").value.trim().toLowerCase();
  const fits = (point) => [point.text, point.group, point.label].some((one) => one?.toLowerCase().includes(wanted));
  const found = wanted ? map.points.filter(fits) : [];
  $("found").replaceChildren(...found.slice(0, MOST_FOUND).map((point) => {
    const use = make("button", { type: "button", kind: "use", text: point.text });
    use.onclick = () => useExemplar(point);
    const ends = ["from", "to"].map((text, side) => {
      const label = `Write ${text} “${point.text}”`;
      const button = make("button", { type: "button", kind: "quiet", text, "aria-label": label });
      button.onclick = () => chooseEnd(side, point);
      return button;
    });
    return make("li", {}, use, ...ends);
  }));
  showEnds();
  if (wanted) say(`${found.length} exemplars found.`);
}

export function showEnds() {
  for (const row of $("found").children) {
    const [use, ...ends] = row.children;
    ends.forEach((button, side) => button.setAttribute("aria-pressed", state.ends[side] === use.textContent));
  }
}

function chooseEnd(side, point) {
  state.ends[side] = point.text;
  keep();
  showEnds();
  const [a, b] = state.ends;
  if (a && b && a !== b) goBetween({ text: a }, { text: b });
  else say(side ? "Now choose where to write from." : "Now choose where to write to.");
}
