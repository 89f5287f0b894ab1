// Sends a file to the server piece by piece, and finds out how much it has of it.
const silence = 45_000; // nothing is sent any more: the connection is dead
const patience = 300_000; // for the answer: the server looks at the whole file
const again = [0, 408, 429, 502, 503, 504];

// Refusal is an answer after which another try does not help.
export class Refusal extends Error {}

export class Sender {
  #served = null; // the ETag of the image that was there before
  #has = 0; // how much the server has for sure
  #isLast = false; // the last piece was begun

  // told(bytes) is called with how much is sent.
  constructor(address, file, sum, signal, told) {
    // The server takes no piece with this id after one of another upload.
    const query = new URLSearchParams({ upload: [...crypto.getRandomValues(new Uint32Array(4))].join("-"), sha256: sum });
    Object.assign(this, { address, query, file, signal, told });
  }

  // where is how much the server has of this upload; -1: all, and the answer to the last piece was lost.
  async where() {
    const answer = await fetch(this.address, { method: "HEAD", cache: "no-store", signal: this.signal }).catch(() => ({ status: 0 }));
    if (!answer.status) throw new Error("the connection broke");
    if (again.includes(answer.status)) throw new Error("the server is not ready");
    const served = answer.headers.get("ETag");
    if (!this.#has) this.#served = served;
    if (!answer.ok || !this.#has) return this.#has; // the answer to the next piece has the reason
    const n = Number(answer.headers.get("Upload-Offset"));
    if (n >= this.#has) return n;
    if (this.#isLast && served !== this.#served) return -1;
    throw new Refusal("The server does not have any more what was sent: another upload of this image has taken over.");
  }

  // put sends a piece, and returns the image once it is complete. What has arrived of a piece that is cut off is kept.
  put(from, to) {
    const { file, signal } = this;
    this.#isLast = to === file.size;
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest(); // fetch does not tell how much is sent
      let heard = Date.now(), limit = silence;
      const watch = setInterval(() => Date.now() - heard > limit && request.abort(), 1000);
      const abort = () => request.abort();
      signal.addEventListener("abort", abort);
      request.upload.onprogress = (e) => (heard = Date.now(), this.told(from + e.loaded));
      request.upload.onload = () => (heard = Date.now(), limit = patience);
      request.onloadend = () => {
        clearInterval(watch);
        signal.removeEventListener("abort", abort);
        if (signal.aborted) return reject(signal.reason);
        if (request.status === 200) return resolve(JSON.parse(request.responseText));
        if (request.status !== 202) return reject(failure(request));
        this.#has = to;
        resolve(null);
      };
      request.open("PUT", this.address + "?" + this.query);
      if (file.size) request.setRequestHeader("Content-Range", `bytes ${from}-${to - 1}/${file.size}`);
      request.send(file.slice(from, to));
    });
  }
}

// failure is the error of an answer; wait is how many seconds the next try has to wait.
function failure(request) {
  const wait = Number(request.getResponseHeader("Retry-After"));
  const isElsewhere = request.status === 409 && request.getResponseHeader("Upload-Offset");
  const kind = again.includes(request.status) || wait || isElsewhere ? Error : Refusal;
  return Object.assign(new kind(request.responseText.trim() || "the connection broke"), { wait });
}
