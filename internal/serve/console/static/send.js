// Sends a file to the server piece by piece, and finds out how much it has of it.
import { SHA256 } from "./sha256.js";

const silence = 45_000; // nothing is sent any more: the connection is dead
const patience = 300_000; // for the answer: the server looks at the whole file
const again = [0, 408, 429, 502, 503, 504];
const step = 1 << 20;

// Refusal is an answer after which another try does not help.
export class Refusal extends Error {}

export class Sender {
  #hash = new SHA256();

  // told has the functions sent(bytes), and compared(bytes, all) while the file is compared.
  constructor(address, file, sum, signal, told) {
    Object.assign(this, { address, file, sum, signal, told, hasSent: false, hasFailed: false });
  }

  // where is how much the server has of this file; -1: all, by another upload.
  async where() {
    const { address, file, signal, hasSent, hasFailed } = this;
    const answer = await fetch(address, { method: "HEAD", cache: "no-store", signal }).catch(() => ({ status: 0 }));
    if (!answer.status) throw new Error("the connection broke");
    if (again.includes(answer.status)) throw new Error("the server is not ready");
    if (!answer.ok) return 0; // the answer to the first piece has the reason
    const head = (name) => answer.headers.get(name);
    const n = Number(head("Upload-Offset")), total = Number(head("Upload-Length") ?? file.size);
    const isOurs = n > 0 && n < file.size && total === file.size && (await this.#digest(n)) === head("X-Glowplug-Partial-Sha256");
    if (isOurs) return n;
    if (hasSent && n > 0) throw new Refusal("Another upload of this image has begun, of another file or from the beginning.");
    if (hasFailed && head("ETag") && head("ETag") === `"${await this.#digest(file.size)}"`) return -1;
    return 0;
  }

  // digest is that of the first n bytes of the file.
  async #digest(n) {
    if (this.#hash.size > n) this.#hash = new SHA256();
    while (this.#hash.size < n) {
      this.signal.throwIfAborted();
      this.told.compared(this.#hash.size, n);
      const part = this.file.slice(this.#hash.size, Math.min(n, this.#hash.size + step));
      this.#hash.update(new Uint8Array(await part.arrayBuffer()));
    }
    return this.#hash.hex();
  }

  // put sends a piece, and returns the image once it is complete. What has arrived of a piece that is cut off is kept.
  put(from, to) {
    const { file, sum, signal } = this;
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest(); // fetch does not tell how much is sent
      let heard = Date.now(), isSent = false;
      const watch = setInterval(() => Date.now() - heard > (isSent ? patience : silence) && request.abort(), 1000);
      const abort = () => request.abort();
      signal.addEventListener("abort", abort);
      request.upload.onprogress = (e) => (heard = Date.now(), this.told.sent(from + e.loaded));
      request.upload.onload = () => (heard = Date.now(), isSent = true);
      request.onloadend = () => {
        clearInterval(watch);
        signal.removeEventListener("abort", abort);
        const { status, responseText: text } = request;
        if (signal.aborted) reject(signal.reason);
        else if (status === 200) resolve(JSON.parse(text));
        else if (status === 202) resolve(null);
        else reject(this.#failure(request));
        this.hasSent ||= status === 202;
      };
      request.open("PUT", this.address + (sum ? "?sha256=" + encodeURIComponent(sum) : ""));
      if (file.size) request.setRequestHeader("Content-Range", `bytes ${from}-${to - 1}/${file.size}`);
      request.send(file.slice(from, to));
    });
  }

  // failure is the error of an answer; wait is how many seconds the next try has to wait.
  #failure(request) {
    this.hasFailed = true;
    const wait = Number(request.getResponseHeader("Retry-After"));
    const isElsewhere = request.status === 409 && request.getResponseHeader("Upload-Offset");
    const kind = again.includes(request.status) || wait || isElsewhere ? Error : Refusal;
    return Object.assign(new kind(request.responseText.trim() || "the connection broke"), { wait });
  }
}
