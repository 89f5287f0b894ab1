// Keeps a page as the server has it: cells change by themselves, other parts are read again as the user.
import { parse, scriptURL } from "./markup.js";
import { open } from "./stream.js";

const looks = {
  a: ["·", "Available"], b: ["▸", "Booting"], p: ["…", "Provisioning"], d: ["✓", "Provisioned"], e: ["!", "Error"],
};
const self = location.pathname.startsWith("/console/hosts/") ? decodeURIComponent(location.pathname.slice(15)) : "";
const calmPause = 400; // between two readings of parts
const stormPause = 10_000;

let cells = null; // by namespace/name
let unseen = new Set(); // hosts that have no cell yet
let at = document.documentElement.dataset.at;
let storm = false;
let lost = null; // since when there is no stream
let wanted = new Set(); // ids of the parts to read again
let timer = 0;
let reading = false;

// follow begins to follow the changes.
export function follow() {
  if ("SharedWorker" in window) {
    const worker = new SharedWorker(scriptURL("/console/static/worker.js"), { type: "module", name: "glowplug" });
    worker.port.onmessage = (m) => take(m.data);
    worker.port.start();
    addEventListener("pagehide", () => worker.port.postMessage("bye"));
    addEventListener("pageshow", (e) => e.persisted && location.reload());
    document.addEventListener("visibilitychange", () => worker.port.postMessage("check"));
    document.addEventListener("resume", () => worker.port.postMessage("check"));
  } else {
    const stream = open(take);
    document.addEventListener("visibilitychange", () => stream.check());
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-refresh]");
    if (button) refresh(button.dataset.refresh.split(" "), true);
  });
  let ticks = 0;
  setInterval(() => {
    ticks++;
    const due = [...document.querySelectorAll("[data-every]")].filter((e) => ticks % e.dataset.every === 0);
    if (due.length && !document.hidden) refresh(due.map((e) => e.closest("[id]").id));
  }, 1000);
  setInterval(tellState, 1000);
  document.addEventListener("pointerover", ({ target }) => {
    if (target.matches(".c")) target.title = target.ariaLabel;
  });
}

function take(message) {
  switch (message.type) {
    case "state":
      if (storm && message.state === "live" && !message.storm) all(); // steps without a new state were not told
      storm = Boolean(message.storm);
      setState(message.state);
      break;
    case "hello": // what has changed since the page was made has been told to others, or to nobody
      if (message.at !== at) all();
      break;
    case "reset":
      all();
      break;
    case "change":
      change(message);
  }
  if (message.at) at = message.at;
}

let state = "off";

function setState(next) {
  if (next === "lost" && !lost) lost = new Date();
  if (next === "live") lost = null;
  state = next;
  document.body.classList.toggle("stale", next !== "live");
  tellState();
}

function tellState() {
  const out = document.getElementById("live");
  const texts = {
    live: storm ? "storm: every second" : "live", off: "connecting", "signed-out": "signed out",
    lost: lost && `connection lost, trying again (${Math.round((Date.now() - lost) / 1000)} s); as of ${lost.toLocaleTimeString()}`,
  };
  if (out.textContent !== texts[state]) out.textContent = texts[state];
  out.dataset.state = state;
}

// all reads everything again.
function all() {
  unseen.clear();
  refresh([...document.querySelectorAll("[data-live], #cells")].map((part) => part.id));
}

function change({ resource, ns, of }) {
  const isHosts = resource === "baremetalhosts" && of && !Array.isArray(of);
  if (isHosts) for (const name in of) setCell(ns + "/" + name, of[name]);
  const isSelf = resource === "baremetalhosts" && self.startsWith(ns + "/") && (!isHosts || self.slice(ns.length + 1) in of);
  const parts = [];
  for (const part of document.querySelectorAll("[data-live]")) {
    const kinds = part.dataset.live.split(" ");
    if (kinds.includes(resource) || isSelf && kinds.includes("self")) parts.push(part.id);
  }
  if (parts.length) refresh(parts);
}

// setCell shows the state of a host.
function setCell(ref, code) {
  const field = document.getElementById("cells");
  if (!field) return;
  if (!cells) cells = new Map([...document.querySelectorAll(".c")].map((c) => [c.getAttribute("href").slice(15), c]));
  const cell = cells.get(ref);
  if (!cell) {
    if (code) tellNew(ref);
    return;
  }
  const [sign, word] = looks[code[0]] || ["·", "gone"];
  const isUnmet = code.endsWith("!");
  const name = ref.slice(ref.indexOf("/") + 1);
  const label = name + ", " + word + (isUnmet ? ", needs attention" : "");
  if (cell.ariaLabel === label) return;
  cell.className = "c " + (code ? code[0] : "gone") + (isUnmet ? " u" : "");
  cell.textContent = isUnmet ? "!" : sign;
  cell.ariaLabel = cell.title = label;
}

function tellNew(ref) {
  unseen.add(ref);
  const note = document.getElementById("new-hosts");
  note.hidden = false;
  note.firstElementChild.textContent = unseen.size + " new: show";
}

// refresh reads parts of the page again, after a pause in which more may be wanted.
function refresh(ids, now) {
  for (const id of ids) wanted.add(id);
  if (now) clearTimeout(timer);
  else if (timer) return;
  const pause = storm ? stormPause * (0.5 + Math.random()) : calmPause;
  timer = setTimeout(read, now ? 0 : pause);
}

async function read() {
  timer = 0;
  if (reading) return refresh([]);
  const ids = [...wanted];
  wanted.clear();
  reading = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Glowplug-Parts": ids.join(",") }, cache: "no-store" });
    if (answer.ok && !answer.redirected) replace(ids, parse(await answer.text()));
  } catch {
    // the stream says that the connection is lost, and everything is read again when it is back
  } finally {
    reading = false;
  }
}

// replace puts the newest parts in place of those that have changed. What has the pointer or the focus waits.
function replace(ids, page) {
  for (const id of ids) {
    const old = document.getElementById(id);
    const next = page.getElementById(id);
    if (!old || !next || old.innerHTML === next.innerHTML) continue;
    if (old.contains(document.activeElement) || old.querySelector("dialog[open]") || id !== "cells" && old.matches(":hover")) {
      setTimeout(() => refresh([id]), 2000);
      continue;
    }
    const opened = [...old.querySelectorAll("details[open] > summary")].map((s) => s.textContent);
    old.replaceChildren(...next.childNodes);
    for (const summary of old.querySelectorAll("details > summary")) {
      if (opened.includes(summary.textContent)) summary.parentElement.open = true;
    }
    if (id === "cells") {
      cells = null;
      unseen.clear();
    }
  }
}
