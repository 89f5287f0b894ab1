// The form of a config: the editor takes the place of the textarea, and shows what the server says of the text as one
// types. Nothing is saved by it.
import { createEditor } from "./editor.js";

const pause = 300; // ms after the last key until the text is compiled
const again = 2000; // ms until it is tried again where the server is busy
const large = 50 << 10; // characters from which on it is told that it takes time

const byID = (id) => document.getElementById(id);
const form = byID("config-form");
const { source, rest, base } = form.elements;
const next = byID("next-finding");
const tellState = (text) => (byID("compile-state").textContent = text);

const editor = createEditor(byID("editor"), {
  doc: source.value, readOnly: source.readOnly, label: "source of the config", onChange: changed,
  yaml: !rest.value.includes("format: kickstart"),
});
source.hidden = true;
byID("editor").hidden = false;

let timer = 0;
let running = null;
let isChanged = false;

function changed() {
  isChanged = true;
  compileIn(pause);
}

// compileIn compiles the text after a pause. What runs is about an older text.
function compileIn(wait) {
  clearTimeout(timer);
  if (running) running.abort();
  timer = setTimeout(compile, wait);
}

async function compile() {
  const { signal } = running = new AbortController();
  if (editor.length() > large) tellState("compiling");
  try {
    const answer = await fetch(form.dataset.compile, { method: "POST", signal, body: new FormData(form) });
    if (answer.status === 401) {
      tellState("not compiled: signed out. Sign in in another tab; what you have written stays here");
    } else show(answer.status, await answer.json());
  } catch {
    if (!signal.aborted) tellState("not compiled: the server does not answer");
  }
}

function show(status, verdict) {
  if (status !== 200) {
    tellState("not compiled: " + verdict.problem);
    if (status === 409 || status === 429 || status === 503) compileIn(again);
    return;
  }
  const errors = verdict.findings.filter((f) => f.severity === "error").length;
  const warnings = verdict.findings.length - errors;
  const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  tellState(`compiled in ${verdict.milliseconds} ms · ${count(errors, "error")}, ${count(warnings, "warning")}`);
  const inText = verdict.findings.filter((f) => f.line > 0);
  editor.setFindings(inText);
  next.hidden = inText.length === 0;
  byID("findings").replaceChildren(...verdict.findings.filter((f) => !f.line).map((f) => {
    const item = document.createElement("li");
    item.textContent = `${f.severity}: ${f.message}${f.hint ? ` (${f.hint})` : ""}`;
    return item;
  }));
}

next.addEventListener("click", () => editor.nextFinding());
rest.addEventListener("input", changed);
form.addEventListener("formdata", (event) => event.formData.set("source", editor.value()));
form.addEventListener("submit", () => (isChanged = false));
addEventListener("beforeunload", (event) => isChanged && event.preventDefault());

// The head of the page is read again when the config changes.
new MutationObserver(() => {
  const now = document.querySelector("#head [data-base]");
  byID("changed").hidden = !now?.dataset.base || now.dataset.base === base.value;
}).observe(byID("head"), { childList: true });

if (!source.readOnly) compileIn(0);
