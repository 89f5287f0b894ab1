// What every page does: it follows the changes, moves in the cells by arrows, counts times on, copies commands.
import { follow } from "./live.js";

const units = [[86400, "days"], [3600, "h"], [60, "min"], [1, "s"]];

// ago writes how long ago a time was, with its two largest units.
function ago(seconds) {
  if (seconds < 60) return Math.floor(seconds) + " s";
  if (seconds >= 172800) return Math.floor(seconds / 86400) + " days";
  const i = units.findIndex(([size]) => seconds >= size);
  const start = units[i][0] === 86400 ? 1 : i;
  const [size, name] = units[start];
  const [nextSize, nextName] = units[start + 1];
  return Math.floor(seconds / size) + " " + name + " " + Math.floor((seconds % size) / nextSize) + " " + nextName;
}

function countOn() {
  const now = Date.now();
  for (const t of document.querySelectorAll("time[datetime]")) {
    const text = ago(Math.max(0, (now - Date.parse(t.dateTime)) / 1000)) + " ago";
    if (t.textContent !== text) t.textContent = text;
  }
}

// move goes from one cell to another by an arrow.
function move(event) {
  const cell = event.target.closest(".c");
  if (!cell || !event.key.startsWith("Arrow")) return false;
  const all = [...document.querySelectorAll(".c")];
  let next = null;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    next = all[all.indexOf(cell) + (event.key === "ArrowRight" ? 1 : -1)];
  } else {
    const from = cell.getBoundingClientRect();
    const down = event.key === "ArrowDown";
    let best = Infinity;
    for (const other of all) {
      const at = other.getBoundingClientRect();
      const dy = down ? at.top - from.top : from.top - at.top;
      if (dy < 1) continue;
      const far = dy * 3 + Math.abs(at.left - from.left);
      if (far < best) [best, next] = [far, other];
    }
  }
  if (next) {
    next.focus();
    event.preventDefault();
  }
  return true;
}

const pages = { f: "", c: "configs", i: "images", u: "unknown", b: "boots", e: "events", s: "server" };
let go = 0;

document.addEventListener("keydown", (event) => {
  if (move(event) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog, .editor")) return;
  if (event.key === "/") {
    document.querySelector(".find input").focus();
    event.preventDefault();
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  } else if (event.key === "g") {
    go = Date.now();
  } else if (Date.now() - go < 1500 && event.key in pages) {
    location.assign("/console/" + pages[event.key]);
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling); // plain HTTP has no clipboard
    button.textContent = "Selected: press Ctrl+C";
  }
});

setInterval(countOn, 1000);
follow();
