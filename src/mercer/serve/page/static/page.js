"use strict";
// Everything that the server sends is shown as text; pictures are SVG that the server wrote.

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

async function sent(url, body, headers = {}) {
  const answer = await fetch(url, { method: "POST", body, headers: { accept: "application/json", ...headers } });
  const told = await answer.json();
  if (!answer.ok) {
    const { message, row } = told.error;
    throw new Error(row && !message.startsWith("row") ? `row ${row}: ${message}` : message);
  }
  return told;
}

// ---------------------------------------------------------------- a table is dropped
function dropping(area) {
  const status = one("[data-status]", area), input = one("input", area);
  async function take(file) {
    if (!file) return;
    if (file.size > Number(area.dataset.most)) {
      status.textContent = `${file.name} has ${file.size} bytes; ${area.dataset.most} are taken at most`;
      return;
    }
    status.textContent = `reading ${file.name} ...`;
    try {
      const name = file.name.replace(/[^\x20-\x7e]/g, "_").slice(0, 100);
      const told = await sent("/page/tables", file, { "content-type": "application/octet-stream", "x-file-name": name });
      location.assign(told.url);
    } catch (error) { status.textContent = error.message; }
  }
  input.addEventListener("change", () => take(input.files[0]));
  for (const name of ["dragenter", "dragover"])
    area.addEventListener(name, (event) => { event.preventDefault(); area.classList.add("over"); });
  for (const name of ["dragleave", "drop"])
    area.addEventListener(name, (event) => { event.preventDefault(); area.classList.remove("over"); });
  area.addEventListener("drop", (event) => take(event.dataTransfer.files[0]));
}

// ---------------------------------------------------------------- a fit goes on
function watching(area) {
  if (["done", "failed", "stopped"].includes(area.dataset.status)) return;
  const events = new EventSource(`/jobs/${area.dataset.job}/events`);
  const budget = Number(area.dataset.budget);
  let last = "";
  events.onmessage = (event) => {
    const job = JSON.parse(event.data), progress = job.progress || {};
    const stage = job.message ? `${job.status}: ${job.message}` : progress.stage || job.status;
    one("[data-bar]", area).value = Math.min(100, 100 * job.seconds / budget);
    if (progress.announced) one("[data-announced]", area).textContent = progress.announced;
    if (stage !== last && stage !== progress.announced) {
      one("[data-stage]", area).textContent = stage;
      const line = document.createElement("li");
      line.textContent = `${job.seconds.toFixed(1)} s: ${stage}`;
      one("[data-log]", area).append(line);
      last = stage;
    }
    const figure = (value) => String(Number(value.toPrecision(5)));
    const facts = { time: `${job.seconds.toFixed(0)} of about ${budget} s` };
    if (progress.steps) facts.candidates = `${progress.step} of ${progress.steps}`;
    if (typeof progress.evaluations === "number") facts["evaluations of this one"] = String(progress.evaluations);
    if (typeof progress.best === "number") facts["its best value so far"] = figure(progress.best);
    const list = one("[data-facts]", area);
    list.replaceChildren();
    for (const [name, value] of Object.entries(facts)) {
      const term = document.createElement("dt"), told = document.createElement("dd");
      term.textContent = name; told.textContent = value;
      list.append(term, told);
    }
    if (["done", "failed", "stopped"].includes(job.status)) {
      events.close();
      one("[data-stop]", area).hidden = true;
      one("[data-bar]", area).value = 100;
      if (job.status === "done") {
        one("[data-done]", area).hidden = false;
        location.assign(`/page/models/${encodeURIComponent(area.dataset.model)}`);
      }
    }
  };
}

// ---------------------------------------------------------------- what if
function sliding(form) {
  const section = form.closest("section"), inputs = all("[data-input]", form);
  let moved = (inputs.find((input) => input.type === "range") || {}).dataset?.input ?? null;
  let busy = false, again = false;
  async function ask() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const values = Object.fromEntries(inputs.map((input) => [input.dataset.input, input.value]));
      const told = await sent(form.dataset.whatIf, JSON.stringify({ values, moved }), { "content-type": "application/json" });
      one("[data-answer]", section).textContent = told.words;
      one("[data-density]", section).innerHTML = told.picture;
      one("[data-along-words]", section).textContent = told.along ? told.along.words : "";
      one("[data-along]", section).innerHTML = told.along ? told.along.picture : "";
    } catch (error) { one("[data-answer]", section).textContent = error.message; }
    busy = false;
    if (again) { again = false; ask(); }
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const input of inputs)
    input.addEventListener("input", () => {
      const shown = one(`output[for="${input.id}"]`, form);
      if (shown) shown.textContent = input.value;
      if (input.type === "range") moved = input.dataset.input;
      ask();
    });
  ask();
}

// ---------------------------------------------------------------- new rows
function pasting(form) {
  const section = form.closest("section"), told = one("[data-told]", section);
  const download = one("[data-download]", form);
  let kept = null;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const what = event.submitter ? event.submitter.dataset.do : "rows";
    const place = one("[data-table]", section);
    place.replaceChildren();
    download.hidden = true;
    told.textContent = "...";
    try {
      const found = await sent(`${form.dataset.rows}/${what}`, one("textarea", form).value, { "content-type": "text/csv" });
      place.append(tabled(found));
      const some = found.rows.length < found.all ? `; the first ${found.rows.length} are shown` : "";
      told.textContent = what === "rows" ? `${found.all} rows predicted${some}` : "the rows to label next, best first";
      if (found.csv) {
        if (kept) URL.revokeObjectURL(kept);
        kept = URL.createObjectURL(new Blob([found.csv], { type: "text/csv" }));
        download.href = kept;
        download.hidden = false;
      }
    } catch (error) { told.textContent = error.message; }
  });
}

function tabled(found) {
  const table = document.createElement("table"), head = table.createTHead().insertRow();
  for (const name of found.head) {
    const cell = document.createElement("th");
    cell.scope = "col"; cell.textContent = name;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of found.rows) {
    const line = body.insertRow();
    for (const value of row) line.insertCell().textContent = value;
  }
  return table;
}

// ---------------------------------------------------------------- a stream goes on
function living(section) {
  let version = -1;
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(section.dataset.live, { headers: { accept: "application/json" } });
      if (!answer.ok) return;
      const told = await answer.json();
      if (told.version === version) return;
      version = told.version;
      one("[data-words]", section).textContent = told.words;
      one("[data-picture]", section).innerHTML = told.picture;
    } catch { /* the service is away: the next look may find it */ }
  }, 1000);
}

all("[data-drop]").forEach(dropping);
all("[data-job]").forEach(watching);
all("[data-what-if]").forEach(sliding);
all("[data-rows]").forEach(pasting);
all("[data-live]").forEach(living);
