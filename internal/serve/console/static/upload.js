// Uploads a file into an image piece by piece and, after a break, goes on from what the server has. The first piece is
// small, so that a refusal comes soon; each further one is twice as large, up to the largest.
import { Refusal, Sender } from "./send.js";

const form = document.getElementById("upload-form");
const part = (name) => document.getElementById("upload-" + name);
let running = null; // the AbortController of the upload under way

const size = (n) => (n / 2 ** 20).toFixed(1) + " MiB";

function say(note, problem = "") {
  part("note").textContent = note;
  part("problem").textContent = problem;
  part("problem").hidden = !problem;
}

// show shows how much is sent; the head of the page has the rate and the time left.
function show(sent, total) {
  const [bar, text] = part("progress").children;
  bar.max = total || 1;
  bar.value = sent;
  text.textContent = `${size(sent)} of ${size(total)}`;
}

function pause(ms, why, signal) {
  say(`${why}: trying again in ${Math.ceil(ms / 1000)} s`);
  return new Promise((done) => {
    setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

async function upload(file, signal) {
  const sender = new Sender(form.dataset.iso, file, form.elements.sha256.value, signal, (n) => show(n, file.size));
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
  say("");
  show(0, file.size);
  try {
    const image = await upload(file, running.signal);
    show(file.size, file.size);
    say(`The server has all of ${file.name}. ${image?.status?.phase ?? ""}`, image?.status?.errorMessage);
  } catch (error) {
    if (running.signal.aborted) say("Stopped. The next upload begins anew.");
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
