"use strict";

const KEYS = [..."1234567890qwertyiopadfghjklzxcvbm"]; // n, s and u have another meaning
const SHOWN = 12; // columns in sight
const LONG = 280; // characters from which a text is folded
const POLL = 3000; // milliseconds between two looks at the progress

const by = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)} %`;
const number = (value) => value.toLocaleString("en");
let card = null, classes = [], busy = false;

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function drawing(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// -- the server ----------------------------------------------------------------------------------------------

async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, body === undefined ? {} : {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer. All answers but the last are in the file. Start deepsep label again.");
  }
  if (response.status === 403) throw new Error("This page is out of date. Open the address that deepsep label shows.");
  const content = await response.json().catch(() => ({ error: "The server failed. See its terminal for the reason." }));
  if (!response.ok) throw new Error(content.error);
  return content;
}

async function act(path, body, done) {
  if (busy) return; // the card in sight is being answered
  busy = true;
  document.body.ariaBusy = "true";
  try {
    const state = await ask(path, body);
    by("error").hidden = true;
    show(state);
    if (done) by("status").textContent = done + (state.card ? ` Next: ${state.card.id_name} ${state.card.id}.` : "");
  } catch (error) {
    complain(error);
  } finally {
    busy = false;
    document.body.ariaBusy = "false";
  }
}

function complain(error) {
  if (by("error").textContent !== error.message) by("error").textContent = error.message; // read out once
  by("error").hidden = false;
}

const answer = (label) => {
  if (!card || card.in_table !== null || busy) return;
  act("answer", { row: card.row, label }, `Saved as ${label ?? "not sure"}: ${card.id}.`);
};
const skip = () => card && act("skip", { row: card.row }, `Skipped ${card.id}.`);
const undo = () => by("undo").disabled || act("undo", {}, "Taken back.");

// -- what is shown -------------------------------------------------------------------------------------------

function show(state) {
  card = state.card;
  showProgress(state);
  by("card-title").replaceChildren(...(card ? [make("span", `${card.id_name} `, "soft"), card.id] : ["All rows are answered."]));
  const earlier = card && (card.in_table !== null
    ? `The table has the label “${card.in_table}” for this row. Correct it there.`
    : card.answer !== null ? `Your answer was “${card.answer}”. Another one replaces it.` : "");
  by("earlier").textContent = earlier || "";
  by("earlier").hidden = !earlier;
  const cells = (card?.cells ?? []).map(cell);
  by("cells").replaceChildren(...cells.slice(0, SHOWN));
  const rest = by("others"), more = cells.slice(SHOWN);
  rest.querySelector("dl").replaceChildren(...more);
  rest.querySelector("summary").textContent = `${number(more.length)} more columns`;
  rest.hidden = !more.length;
  for (const button of document.querySelectorAll("#classes button, #unsure")) {
    button.disabled = !card || card.in_table !== null;
  }
  by("skip").disabled = !card;
}

function cell({ name, text }) {
  const line = make("div"), value = make("dd");
  if (!text) {
    value.textContent = "empty";
    value.className = "empty";
  } else if (text.length <= LONG && text.split("\n").length <= 5) {
    value.textContent = text;
  } else {
    const part = make("div", text, "fold"), button = make("button");
    const fold = (folded) => {
      part.classList.toggle("fold", folded);
      button.ariaExpanded = String(!folded);
      button.textContent = folded ? `Show all of ${name}, ${number(text.length)} characters` : `Show less of ${name}`;
    };
    button.type = "button";
    button.addEventListener("click", () => fold(button.ariaExpanded === "true"));
    fold(true);
    value.append(part, button);
  }
  line.append(make("dt", name), value);
  return line;
}

function showProgress(state) {
  document.title = `${number(state.labelled)} labels – ${state.label}`;
  by("title").textContent = `Labelling: ${state.label}`;
  by("counts").textContent = `${number(state.labelled)} of ${number(state.rows)} rows labelled, `
    + `${number(state.unsure)} not sure. Saved in ${state.file}`;
  by("question").textContent = state.classes.length ? `Which ${state.label}?` : "Type the first class";
  if (!state.classes.length) by("more").open = true;
  by("undo").disabled = !state.undo;
  showClasses(state.classes);
  showAccuracy(state);
}

function showClasses(given) {
  const names = given.map(({ name }) => name);
  if (names.join("\n") !== classes.join("\n")) { // buttons stay where they are, and keep the focus
    classes = names;
    by("classes").replaceChildren(...names.map((name, i) => {
      const button = make("button");
      button.type = "button";
      if (i < KEYS.length) button.setAttribute("aria-keyshortcuts", KEYS[i]);
      const key = make("kbd", KEYS[i] ?? "");
      key.ariaHidden = "true";
      key.hidden = i >= KEYS.length;
      button.append(key, make("span", name), make("span", "", "count"));
      button.addEventListener("click", () => answer(name));
      button.disabled = !card || card.in_table !== null;
      return button;
    }));
  }
  by("classes").querySelectorAll(".count").forEach((count, i) => {
    count.textContent = number(given[i].count);
    count.ariaLabel = `${given[i].count} labels`;
  });
}

function showAccuracy({ curve, labels_until_fit: more, refitting, refit_error: error, labelled }) {
  const last = curve.at(-1);
  const words = last
    ? `About ${percent(last.value)} of the other rows right (${Math.round(100 * last.low)}–${percent(last.high)})`
    : "Not known yet";
  if (by("accuracy").textContent !== words) by("accuracy").textContent = words;
  by("accuracy-note").textContent = last
    ? `A quick model with ${number(last.labels)} labels; 90 % interval, from rows drawn at random and held out.`
    : "It is estimated once enough rows of each class are labelled.";
  const stuck = labelled && !more && !refitting && !error ? "Label at least two rows of two classes." : "";
  by("refit").textContent = refitting ? "Fitting to the new labels …"
    : error ? `The last fit failed (${error}). You can keep labelling.`
    : stuck || (more ? `Next fit after ${number(more)} more ${more === 1 ? "label" : "labels"}.` : "");
  drawCurve(curve);
}

function drawCurve(curve) {
  const svg = by("curve");
  svg.toggleAttribute("hidden", !curve.length);
  if (!curve.length) return;
  const most = Math.max(...curve.map((point) => point.labels));
  const x = (labels) => 40 + 250 * labels / most, y = (share) => 120 - 110 * share;
  const path = (points) => points.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" ");
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(drawing("line", { class: "grid", x1: 40, x2: 290, y1: y(share), y2: y(share) }));
    parts.push(drawing("text", { x: 34, y: y(share) + 4, "text-anchor": "end" }, `${100 * share}%`));
  }
  const upper = curve.map((p) => [x(p.labels), y(p.high)]), lower = curve.map((p) => [x(p.labels), y(p.low)]);
  parts.push(drawing("polygon", { class: "band", points: path([...upper, ...lower.reverse()]) }));
  parts.push(drawing("polyline", { class: "line", points: path(curve.map((p) => [x(p.labels), y(p.value)])) }));
  const end = curve.at(-1);
  parts.push(drawing("line", { class: "whisker", x1: x(end.labels), x2: x(end.labels), y1: y(end.low), y2: y(end.high) }));
  parts.push(drawing("circle", { class: "dot", cx: x(end.labels), cy: y(end.value), r: 4 }));
  parts.push(drawing("text", { x: 40, y: 140, "text-anchor": "middle" }, "0"));
  parts.push(drawing("text", { x: 290, y: 140, "text-anchor": "end" }, `${number(most)} labels`));
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", "Estimated accuracy by labels: "
    + curve.map((p) => `${p.labels} labels ${percent(p.value)}`).join(", "));
}

// -- search, new classes, keys -------------------------------------------------------------------------------

function closeSearch() {
  by("results").hidden = true;
  by("words").value = "";
}

by("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  const words = by("words").value.trim();
  if (!words) return closeSearch();
  try {
    const { rows } = await ask(`search?words=${encodeURIComponent(words)}`);
    by("results-title").textContent = rows.length
      ? `${rows.length} ${rows.length === 1 ? "row" : "rows"} with “${words}”${rows.length === 20 ? ", the first" : ""}`
      : `No row with “${words}”`;
    by("found").replaceChildren(...rows.map(({ row, id, answer: had, where }) => {
      const item = make("li"), button = make("button", had === null ? id : `${id} – ${had}`);
      button.type = "button";
      button.append(make("span", where, "soft"));
      button.addEventListener("click", async () => {
        closeSearch();
        await act("show", { row }, `Showing ${id}.`);
        by("status").textContent = `Showing ${id}.`;
        by("card-title").focus();
      });
      item.append(button);
      return item;
    }));
    by("results").hidden = false;
    by("results-title").focus();
  } catch (error) {
    complain(error);
  }
});
by("close").addEventListener("click", () => {
  closeSearch();
  by("card-title").focus();
});

function openNewClass() {
  by("more").open = true;
  by("class-name").focus();
}

by("new-class").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = by("class-name").value.trim();
  if (!name) return;
  await act("class", { name });
  if (classes.includes(name)) {
    by("class-name").value = "";
    by("more").open = classes.length < 2;
    by("status").textContent = `Added the class ${name}.`;
    by("card-title").focus();
  }
});

by("unsure").addEventListener("click", () => answer(null));
by("skip").addEventListener("click", skip);
by("undo").addEventListener("click", undo);

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox])");
  if (event.key === "Escape") {
    closeSearch();
    by("card-title").focus();
    return;
  }
  if (typing || event.ctrlKey || event.altKey || event.metaKey || event.repeat || !by("keys").checked) return;
  const key = event.key.toLowerCase(), place = KEYS.indexOf(key);
  const actions = {
    n: () => answer(null), s: skip, u: undo, "/": () => by("words").focus(), "+": openNewClass,
  };
  if (place >= 0 && place < classes.length) answer(classes[place]);
  else if (key in actions) actions[key]();
  else return;
  event.preventDefault();
});

setInterval(async () => {
  if (document.hidden || busy) return;
  try {
    const state = await ask("progress");
    if (!busy) showProgress(state);
  } catch (error) {
    complain(error);
  }
}, POLL);

act("state");
