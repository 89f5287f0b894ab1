// The one place in which markup is made: from pages of this origin, which escape what they show.
const plain = { createHTML: (text) => text, createScriptURL: (url) => url };
const policy = window.trustedTypes ? window.trustedTypes.createPolicy("console", plain) : plain;

// parse returns a page as a document.
export function parse(text) {
  return new DOMParser().parseFromString(policy.createHTML(text), "text/html");
}

// scriptURL returns the address of a script of this origin for a worker.
export function scriptURL(path) {
  return policy.createScriptURL(path);
}
