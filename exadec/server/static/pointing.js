// The style map under a pointer: a click uses an exemplar, a drag writes between two, the handle moves the share.

import { goBetween, setShare, useExemplar } from "./cards.js";
import { drawMarks, places, showTip, shownPoints, toPixels } from "./map.js";
import { between } from "./state.js";
import { $, named } from "./tools.js";

const NEAR = 14; // pixels between the pointer and a point

function pixelsOf(event) {
  const box = $("map").getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function nearest(event) {
  const [x, y] = pixelsOf(event);
  let best = null;
  for (const point of shownPoints()) {
    const [px, py] = toPixels(point);
    const distance = Math.hypot(px - x, py - y);
    if (distance <= (best?.distance ?? NEAR)) best = { point, distance };
  }
  return best?.point ?? null;
}

/** A press on a point and a release on another one make a card between them; on the same one, they use it. */
export function press(event) {
  const card = between();
  if (event.target.closest(".handle") && card) {
    follow(event, (moved) => setShare(card, shareAt(moved, card)), () => {});
    return;
  }
  const start = nearest(event);
  if (!start) return;
  const stretch = (moved) => {
    drawMarks([...toPixels(start), ...pixelsOf(moved)]);
    showTip(nearest(moved)?.text ?? start.text);
  };
  follow(event, stretch, (released) => {
    const end = nearest(released);
    drawMarks();
    if (end === start) useExemplar(start);
    else if (end) goBetween(start, end);
  });
}

/** Until the pointer is released, it belongs to the map. */
function follow(event, move, done) {
  const svg = $("map");
  event.preventDefault();
  svg.setPointerCapture(event.pointerId);
  svg.onpointermove = move;
  svg.onpointerup = svg.onpointercancel = (last) => {
    svg.onpointermove = hover;
    svg.onpointerup = svg.onpointercancel = null;
    if (last.type === "pointerup") done(last);
    else drawMarks();
  };
}

export function hover(event) {
  const point = nearest(event);
  $("map").classList.toggle("over", Boolean(point));
  if (!point) {
    leave();
    return;
  }
  const whose = named(point.label ?? point.group ?? "");
  showTip(`${whose}${whose && ": "}${point.text}`);
}

export function leave() {
  showTip(between()?.answer?.text ?? "");
}

function shareAt(event, card) {
  const [[ax, ay], [bx, by]] = [toPixels(places.get(card.a)), toPixels(places.get(card.b))];
  const [x, y] = pixelsOf(event);
  return ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1);
}
