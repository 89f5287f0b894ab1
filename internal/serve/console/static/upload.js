// Uploads a file into an image piece by piece and, after a break, goes on from what the server has.
import { Refusal, Sender } from "./send.js";

const form = document.getElementById("upload-form");
const part = (name) => document.getElementById("upload-" + name);
let running = null; // the AbortController of the upload under way

function size(n) {
  const i = n < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(n) / 10));
  return i ? (n / 1024 ** i).toFixed(1) + " " + "KMGT"[i - 1] + "iB" : n + " B";
}

function time(s) {
  return s < 60 ? Math.ceil(s) + " s" : s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}

function say(note, problem = "") {
  part("note").textContent = note;
  part("problem").textContent = problem;
  part("problem").hidden = !problem;
}

let samples = []; // of the last ten seconds
function show(sent, total) {
  const now = performance.now();
  samples = samples.filter(([at, n]) => now - at < 10_000 && n <= sent);
  samples.push([now, sent]);
  const [at, from] = samples[0];
  const rate = now - at > 500 ? ((sent - from) * 1000) / (now - at) : 0;
  const [bar, text] = part("progress").children;
  bar.max = total || 1;
  bar.value = sent;
  text.textContent = `${size(sent)} of ${size(total)}` + (rate && sent < total ? ` · ${size(rate)}/s · ${time((total - sent) / rate)} left` : "");
}

async function pause(ms, why, signal) {
  for (const end = Date.now() + ms; Date.now() < end; ) {
    signal.throwIfAborted();
    say(`${why}: trying again in ${time((end - Date.now()) / 1000)}`);
    await new Promise((done) => setTimeout(done, 250));
  }
}

async function upload(file, signal) {
  const sender = new Sender(form.dataset.iso, file, form.elements.sha256.value, signal, {
    sent: (n) => show(n, file.size),
    compared: (n, all) => say(`comparing the file with the ${size(all)} that the server has: ${Math.floor((100 * n) / all)} %`),
  });
  for (let tries = 0; ; tries++) {
    try {
      let at = await sender.where();
      if (at < 0) return null;
      say(at ? `going on after ${size(at)}` : "");
      for (let piece = Number(form.dataset.first); ; piece = Math.min(Number(form.dataset.largest), 2 * piece)) {
        const to = Math.min(file.size, at + piece);
        const image = await sender.put(at, to);
        if (image) return image;
        [at, tries] = [to, 0];
      }
    } catch (error) {
      if (error instanceof Refusal || signal.aborted) throw error;
      await file.slice(0, 1).arrayBuffer().catch((e) => { throw new Refusal(`The file cannot be read: ${e.message}`); });
      await pause(Math.max(1000 * (error.wait || 0), Math.min(30_000, 1000 * 2 ** tries)), error.message, signal);
    }
  }
}

async function begin(event) {
  event.preventDefault();
  const file = form.elements.iso.files[0];
  running = new AbortController();
  setRunning(true);
  samples = [];
  say("");
  show(0, file.size);
  try {
    const image = await upload(file, running.signal);
    const status = image?.status ?? {};
    show(file.size, file.size);
    say(`The server has all of ${file.name}. ${status.phase ?? ""}`, status.errorMessage);
  } catch (error) {
    if (running.signal.aborted) say("Stopped. Upload the same file again, and it goes on from there.");
    else say("", error.message);
  }
  running = null;
  setRunning(false);
}

function setRunning(is) {
  part("begin").hidden = is;
  part("stop").hidden = !is;
  part("progress").hidden = false;
}

form.addEventListener("submit", begin);
part("stop").addEventListener("click", () => running?.abort());
addEventListener("beforeunload", (event) => running && event.preventDefault());
part("drop").hidden = false;
form.addEventListener("dragover", (event) => event.preventDefault());
form.addEventListener("drop", (event) => {
  event.preventDefault();
  const { files } = event.dataTransfer;
  if (running) return;
  if (files.length === 1) form.elements.iso.files = files;
  say(files.length === 1 ? `${files[0].name}, ${size(files[0].size)}: press Upload` : "", files.length > 1 ? "Drop one file, not several." : "");
});
