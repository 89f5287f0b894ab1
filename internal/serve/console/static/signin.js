// Signs in by itself: with the code of a one-time link, or where the browser is signed in already and came by a link
// from another site, without its cookie. After an issuer has signed the user in, it goes on.
const form = document.getElementById("sign-in");
const onward = document.getElementById("go-on");

function use(code) {
  form.elements.code.value = code;
  form.submit();
}

// Somebody else may have made the link, to have this browser work as him: it takes no session's place unasked.
function ask(code, user) {
  const question = document.getElementById("ask");
  if (user) question.querySelector("span").textContent = `, in place of ${user}`;
  question.hidden = false;
  question.querySelector("button").addEventListener("click", () => use(code));
  question.querySelector("button").focus();
}

async function begin() {
  if (onward) {
    location.replace(onward.href);
    return;
  }
  if (!form) return;
  const code = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  const isForeign = form.hasAttribute("data-foreign");
  let user = form.dataset.user;
  if (isForeign && !user) {
    const answer = await fetch("/console/whoami", { cache: "no-store" });
    if (answer.ok) user = (await answer.json()).user;
  }
  if (!code) {
    if (user) location.replace(form.elements.next.value);
  } else if (user || isForeign) {
    ask(code, user);
  } else {
    use(code);
  }
}

begin();
