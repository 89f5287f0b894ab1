// SHA-256 of a file in parts. The browser's own takes the whole in memory, and none over plain HTTP.
const prime = [];
for (let n = 2; prime.length < 64; n++) if (prime.every((p) => n % p)) prime.push(n);
const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const rounds = Int32Array.from(prime, (p) => fraction(Math.cbrt(p)));

export class SHA256 {
  #state = Int32Array.from(prime.slice(0, 8), (p) => fraction(Math.sqrt(p)));
  #words = new Int32Array(64);
  #rest = new Uint8Array(0); // what does not fill a block yet
  size = 0;

  // update adds bytes.
  update(bytes) {
    this.size += bytes.length;
    if (this.#rest.length) {
      const all = new Uint8Array(this.#rest.length + bytes.length);
      all.set(this.#rest);
      all.set(bytes, this.#rest.length);
      bytes = all;
    }
    let at = 0;
    for (; at + 64 <= bytes.length; at += 64) this.#block(bytes, at);
    this.#rest = bytes.slice(at);
  }

  // hex is the digest of all so far; more may follow.
  hex() {
    const end = new SHA256();
    end.#state = this.#state.slice();
    const tail = new Uint8Array(this.#rest.length < 56 ? 64 : 128);
    tail.set(this.#rest);
    tail[this.#rest.length] = 0x80;
    new DataView(tail.buffer).setBigUint64(tail.length - 8, BigInt(this.size) * 8n);
    for (let at = 0; at < tail.length; at += 64) end.#block(tail, at);
    return Array.from(end.#state, (x) => (x >>> 0).toString(16).padStart(8, "0")).join("");
  }

  #block(bytes, at) {
    const w = this.#words;
    for (let i = 0; i < 16; i++, at += 4) {
      w[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    }
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    const s = this.#state;
    let a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (let i = 0; i < 64; i++) { // without arrays: ten times as fast
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + rounds[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g, g = f, f = e, e = (d + t1) | 0;
      d = c, c = b, b = a, a = (t1 + t2) | 0;
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
  }
}
