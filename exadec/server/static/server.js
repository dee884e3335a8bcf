// Asking the server: with the token it wants, again while it is busy, and with its refusals in words for people.

import { $, endNotice, remember, remembered } from "./tools.js";

const MOST_TRIES = 4;
const MESSAGES = {
  413: "This is too long for the server. Shorten the source or the exemplar.",
  429: "The server is busy. Try again in a moment.",
  503: "The server needed too long. Try again, perhaps with a shorter text.",
};

class Refusal extends Error {
  constructor(status, message, seconds) {
    super(message);
    this.status = status;
    this.seconds = seconds;
  }
}

let token = remembered("sessionStorage", "exadec-token");

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export async function ask(path, body, { method = body === undefined ? "GET" : "POST", signal } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const given = token;
  if (given) headers.Authorization = `Bearer ${given}`;
  let response;
  try {
    response = await fetch(`v1/${path}`, { method, headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server cannot be reached. Is it still running?");
  }
  endNotice("connection");
  if (response.ok) return response.status === 204 ? null : response.json();
  if (response.status === 401) {
    if (given === token) await askForToken(); // otherwise there is a new one already
    return ask(path, body, { method, signal });
  }
  const problem = await response.json().catch(() => ({}));
  const said = problem.error ? sentence(problem.error) : `The server answered with ${response.status}.`;
  const seconds = Number(response.headers.get("Retry-After")) || 1;
  throw new Refusal(response.status, MESSAGES[response.status] || said, seconds);
}

/** Ask again while the server is busy; `tell` hears how long it waits. */
export async function askPatiently(path, body, signal, tell) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask(path, body, { signal });
    } catch (error) {
      if (error.status !== 429 || tries === MOST_TRIES) throw error;
      tell(`The server is busy; trying again in ${error.seconds} s.`);
      await new Promise((done) => setTimeout(done, 1000 * error.seconds));
      signal?.throwIfAborted();
    }
  }
}

let tokenAsked = null;
function askForToken() {
  tokenAsked ??= new Promise((done) => {
    const dialog = $("token-dialog");
    $("token").value = "";
    dialog.oncancel = (event) => event.preventDefault(); // nothing works without it
    $("token-form").onsubmit = (event) => {
      event.preventDefault();
      token = $("token").value.trim();
      remember("sessionStorage", "exadec-token", token);
      dialog.close();
      tokenAsked = null;
      done();
    };
    dialog.showModal();
  });
  return tokenAsked;
}
