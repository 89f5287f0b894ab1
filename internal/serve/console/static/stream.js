// The stream of changes. EventSource gives up at an answer that is no success, so it is opened again by a timer here.
const resources = ["baremetalhosts", "ignitionconfigs", "iscsicdroms", "unknownmachines", "boots", "events", "streamreleases"];
const silence = 25_000; // longer than two heartbeats: the connection is dead

export function open(tell) {
  let source = null;
  let position = "";
  let timer = 0;
  let heard = 0;

  function again(after) {
    if (source) source.close();
    source = null;
    clearTimeout(timer);
    timer = setTimeout(connect, after);
  }

  async function connect() {
    clearTimeout(timer);
    const signedIn = await fetch("/console/whoami", { cache: "no-store" }).then((r) => r.status, () => 0);
    if (signedIn === 401) {
      tell({ type: "state", state: "signed-out" });
      return again(10_000);
    }
    if (signedIn !== 200) {
      tell({ type: "state", state: "lost" });
      return again(1000);
    }
    if (source) source.close();
    source = new EventSource("/console/events/stream" + (position ? "?from=" + encodeURIComponent(position) : ""));
    heard = Date.now();
    source.onerror = () => {
      tell({ type: "state", state: "lost" });
      again(1000);
    };
    source.addEventListener("hello", (e) => {
      heard = Date.now();
      const hello = JSON.parse(e.data);
      tell({ type: "state", state: "live", storm: hello.storm });
      if (!position) {
        position = hello.at;
        tell({ type: "hello", at: position });
      }
    });
    source.addEventListener("reset", (e) => {
      position = e.lastEventId;
      tell({ type: "reset", at: position });
    });
    source.addEventListener("hub", (e) => {
      note(e);
      tell({ type: "state", state: "live", storm: JSON.parse(e.data).of.storm });
    });
    for (const resource of resources) {
      source.addEventListener(resource, (e) => {
        note(e);
        const { ns, of } = JSON.parse(e.data);
        tell({ type: "change", resource, ns, of, at: position });
      });
    }
  }

  function note(e) {
    heard = Date.now();
    position = e.lastEventId;
  }

  connect();
  return {
    // check opens the stream again where it may be dead, such as after a sleep.
    check() {
      if (!source || source.readyState === 2 || Date.now() - heard > silence) again(0);
    },
  };
}
