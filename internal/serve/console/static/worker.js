// Keeps one stream of changes for all pages of the browser, in a SharedWorker, or for one page without it.
import { open } from "./stream.js";

const ports = new Set();
let last = { type: "state", state: "off" };
let at = "";

function tell(message) {
  if (message.type === "state") last = message;
  if (message.at) at = message.at;
  for (const port of ports) port.postMessage(message);
}

self.onconnect = (event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = (m) => {
    if (m.data === "bye") ports.delete(port);
    if (m.data === "check") stream.check();
  };
  port.postMessage(last);
  if (at) port.postMessage({ type: "hello", at });
};

const stream = open(tell);
