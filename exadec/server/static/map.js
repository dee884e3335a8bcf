// The style map as a picture: points, legend, and the marks of the cards. What a pointer does on it is in pointing.js.

import { model } from "./model.js";
import { ask, askPatiently } from "./server.js";
import { between, keep, state } from "./state.js";
import { $, endNotice, later, make, named, notify, WAIT } from "./tools.js";

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = [
  "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "M-2.7-2.7h5.4v5.4h-5.4z", "M0-3.6L3.4 2.6h-6.8z", "M0-3.8L3.8 0 0 3.8-3.8 0z",
  "M0 3.6L3.4-2.6h-6.8z", "M-1.2-3.6h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4v-2.4h2.4z",
  "M-3.4-1.7l1.7-1.7L0-1.7l1.7-1.7 1.7 1.7L1.7 0l1.7 1.7-1.7 1.7L0 1.7l-1.7 1.7-1.7-1.7L-1.7 0z", "M-3.6 0L2.6-3.4v6.8z",
  "M3.6 0L-2.6-3.4v6.8z", "M0-4.2l1.2 2.9 3.1.2-2.4 2 .8 3-2.7-1.6-2.7 1.6.8-3-2.4-2 3.1-.2z",
];
const REST = "M-1.8 0a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0";

export let map = null; // { meaning, labels, points }, once it is there
export const places = new Map(); // text -> { x, y }
let size = { width: 0, height: 0 };
export const shownPoints = () => map.points.filter((point) => !state.hidden.includes(point.label ?? ""));
/** From 0 to 1 inside the frame of the map. */
const within = (value, [begin, end]) => (end > begin ? (value - begin) / (end - begin) : 0.5);
const isOutside = ({ x, y }) => [within(x, map.frame.x), within(y, map.frame.y)].some((one) => one < 0 || one > 1);
const clamp = (share) => Math.min(1, Math.max(0, share));
/** What lies outside the frame is shown at its border. */
export const toPixels = ({ x, y }) => [
  18 + clamp(within(x, map.frame.x)) * (size.width - 36),
  18 + (1 - clamp(within(y, map.frame.y))) * (size.height - 36),
];

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export async function loadMap() {
  if (!model.adapts || !model.exemplars) {
    $("map-help").textContent = model.adapts
      ? "There is no map: this model was opened without its exemplars."
      : `There is no map: this model (${model.variant}) does not adapt to an exemplar by coefficients.`;
    return;
  }
  try {
    map = await askPatiently("map", undefined, undefined, (text) => notify(text, "map"));
  } catch (error) {
    $("map-help").textContent = error.message;
    return;
  } finally {
    endNotice("map");
  }
  for (const point of map.points) places.set(point.text, point);
  $("map-frame").hidden = false;
  describeMap();
  $("finder").hidden = false;
  showMap();
  placeSoon();
}

function describeMap() {
  const outside = map.points.filter(isOutside).length;
  const notes = [];
  if (map.uniform) notes.push("This model makes almost no difference between exemplars, so places on the map mean little.");
  if (outside) notes.push(`Hollow points at the border lie farther out: ${outside.toLocaleString("en")}.`);
  $("map-note").textContent = notes.join(" ");
  $("map-note").hidden = !notes.length;
}

export function showMap() {
  if (!map) return;
  showLegend();
  drawMap();
}

function shapeOf(label) {
  const number = map.labels.indexOf(label);
  return draw("path", { d: SHAPES[number] ?? REST, class: number < 0 ? "rest" : `label-${number}` });
}

function showLegend() {
  const labels = map.points.some((point) => point.label === null) ? [...map.labels, ""] : map.labels;
  if (labels.length < 2) return;
  $("map-legend").replaceChildren(...labels.map((label) => {
    const isHidden = () => state.hidden.includes(label);
    const button = make("button", { type: "button", kind: "quiet", "aria-pressed": !isHidden() });
    const icon = draw("svg", { viewBox: "-5 -5 10 10", "aria-hidden": "true" }, shapeOf(label));
    button.append(icon, named(label) || `other ${map.meaning}s`);
    button.onclick = () => {
      state.hidden = isHidden() ? state.hidden.filter((one) => one !== label) : [...state.hidden, label];
      button.setAttribute("aria-pressed", !isHidden());
      drawMap();
      keep();
    };
    return button;
  }));
}

export function drawMap() {
  if (!map) return;
  const width = $("map-frame").clientWidth;
  size = { width, height: Math.round(Math.min(0.82 * width, 420)) };
  $("map").setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  const points = draw("g", { class: "points" });
  for (const point of shownPoints()) {
    const shape = shapeOf(point.label);
    const [x, y] = toPixels(point);
    shape.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    if (isOutside(point)) shape.classList.add("outside");
    points.append(shape);
  }
  $("map").replaceChildren(points, draw("g", { id: "marks" }));
  drawMarks();
}

/** Rings around the exemplars of the cards, and the line between two ends; `rubber` is one that is being drawn. */
export function drawMarks(rubber = null) {
  const marks = $("marks");
  if (!marks) return;
  marks.replaceChildren();
  const card = between();
  if (card && places.get(card.a) && places.get(card.b)) {
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

export const placeSoon = later(WAIT, async () => {
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

export function showTip(text) {
  $("map-tip").textContent = text;
}
