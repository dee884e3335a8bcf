// What the server has: its model, and the house styles that are kept beside it.

import { ask } from "./server.js";

export let model = { reads_exemplars: true, adapts: false, group_count: 0 };
export let styles = [];

export async function loadModel() {
  model = await ask("model");
}

export async function loadStyles() {
  ({ styles } = await ask("styles"));
}

/** The exemplars of a house style with their weights; none if there is no such style. */
export const exemplarsOf = (name) => styles.find((style) => style.name === name)?.exemplars ?? [];
