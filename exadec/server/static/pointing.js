// The style map under a pointer: a click uses an exemplar, a drag writes between two, the handle moves the share.

import { goBetween, setShare, useExemplar } from "./cards.js";
import { drawMarks, places, showTip, shownPoints, toPixels } from "./map.js";
import { between } from "./state.js";
import { $, named } from "./tools.js";

const NEAR = 14; // pixels between the pointer and a point
const NEAR_HANDLE = 24; // of a finger, which is broader than the handle

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

/** The card whose handle a pointer is on. */
function heldCard(event) {
  const handle = $("map").querySelector(".handle");
  const [x, y] = pixelsOf(event);
  const isNear = handle && Math.hypot(handle.cx.baseVal.value - x, handle.cy.baseVal.value - y) <= NEAR_HANDLE;
  return event.target.closest(".handle") || (isNear && event.pointerType !== "mouse") ? between() : null;
}

/** A finger that comes down on a point or on the handle drags; anywhere else it scrolls the page. */
export function touch(event) {
  const [finger, ...others] = event.touches;
  if (!others.length && (heldCard(finger) || nearest(finger))) event.preventDefault();
}

/** A press on a point and a release on another one make a card between them; on the same one, they use it. */
export function press(event) {
  if (!event.isPrimary || event.button) return;
  const card = heldCard(event);
  if (card) {
    follow(event, (moved) => setShare(card, shareAt(moved, card)), () => {});
    return;
  }
  const start = nearest(event);
  if (!start) {
    showTip(usualTip());
    return;
  }
  const stretch = (moved) => {
    drawMarks([...toPixels(start), ...pixelsOf(moved)]);
    showTip(nearest(moved)?.text ?? start.text);
  };
  follow(event, stretch, (released) => {
    const end = nearest(released);
    drawMarks();
    if (end === start) {
      useExemplar(start);
      showTip(describePoint(start));
    } else if (end) goBetween(start, end);
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
  showTip(point ? describePoint(point) : usualTip());
}

/** A finger leaves with every tap: what it tapped stays in the tip. */
export function leave(event) {
  if (event.pointerType !== "touch") showTip(usualTip());
}

function describePoint(point) {
  const whose = named(point.label ?? point.group ?? "");
  return `${whose}${whose && ": "}${point.text}`;
}

const usualTip = () => between()?.answer?.text ?? "";

function shareAt(event, card) {
  const [[ax, ay], [bx, by]] = [toPixels(places.get(card.a)), toPixels(places.get(card.b))];
  const [x, y] = pixelsOf(event);
  return ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1);
}
