// The form of a config: the editor takes the place of the textarea, and shows what the server says of the text as one
// types. Nothing is saved by it.
import { createEditor } from "./editor.js";

const pause = 300; // ms after the last key until the text is compiled
const again = 2000; // ms until it is tried again where the server is busy
const large = 50 << 10; // characters from which on it is told that it takes time

const form = document.getElementById("config-form");
const { source, rest, base } = form.elements;
const line = document.getElementById("compile-state");
const next = document.getElementById("next-finding");
const others = document.getElementById("findings");
const mount = document.getElementById("editor");

const editor = createEditor(mount, {
  doc: source.value, readOnly: source.readOnly, label: "source of the config", yaml: !rest.value.includes("format: kickstart"),
  onChange: changed,
});
source.hidden = true;
mount.hidden = false;

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
  const text = editor.value();
  const { signal } = running = new AbortController();
  const began = Date.now();
  const tell = () => tellState(`compiling, ${Math.round((Date.now() - began) / 1000)} s`);
  const clock = setInterval(tell, 1000);
  if (text.length > large) tell();
  signal.addEventListener("abort", () => clearInterval(clock));
  try {
    const { namespace, name } = form.dataset;
    const answer = await fetch("/console/configs/compile", {
      method: "POST", signal, headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ namespace, name, source: text, rest: rest.value }),
    });
    if (answer.status === 401) {
      tellState("not compiled: signed out. Sign in in another tab; what you have written stays here");
    } else show(answer.status, await answer.json());
  } catch {
    if (!signal.aborted) tellState("not compiled: the server does not answer");
  } finally {
    clearInterval(clock);
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
  editor.setFindings(verdict.findings);
  next.hidden = !verdict.findings.some((f) => f.line > 0);
  others.replaceChildren(...verdict.findings.filter((f) => !f.line).map((f) => {
    const item = document.createElement("li");
    item.textContent = `${f.severity}: ${f.message}${f.hint ? ` (${f.hint})` : ""}`;
    return item;
  }));
}

function tellState(text) {
  line.textContent = text;
}

next.addEventListener("click", () => editor.nextFinding());
rest.addEventListener("input", changed);
form.addEventListener("formdata", (event) => event.formData.set("source", editor.value()));
form.addEventListener("submit", () => (isChanged = false));
addEventListener("beforeunload", (event) => isChanged && event.preventDefault());

// The head of the page is read again when the config changes.
const head = document.getElementById("head");
new MutationObserver(() => {
  const now = head.querySelector("[data-base]");
  document.getElementById("changed").hidden = !now?.dataset.base || now.dataset.base === base.value;
}).observe(head, { childList: true });

if (!source.readOnly) compileIn(0);
