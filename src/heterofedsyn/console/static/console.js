"use strict";
// Shows pages anew when something changed, and forms that only ask while one fills them in.
// Everything works without it, by loading pages anew.
(() => {
  const root = document.documentElement.dataset.root;
  const state = document.getElementById("live-state");
  let asked = 0;

  async function renew(address) {
    const turn = ++asked;
    let answer;
    try {
      answer = await fetch(address, { cache: "no-store", redirect: "error" });
    } catch {
      return;
    }
    if (!answer.ok || turn !== asked) return;
    const other = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = other.getElementById(part.id);
      if (!fresh || part.contains(document.activeElement)) continue;
      const opened = new Set([...part.querySelectorAll("details[open][id]")].map((one) => one.id));
      part.replaceChildren(...document.importNode(fresh, true).childNodes);
      for (const one of part.querySelectorAll("details[id]")) one.open = opened.has(one.id);
    }
  }

  // Browsers keep few connections to one place, so that only a page that is looked at has one.
  let source = null;

  function follow() {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      const page = location.pathname.slice(root.length + 1);
      source = new EventSource(root + "/events?" + new URLSearchParams({ page }));
      source.addEventListener("open", () => {
        say("This page follows what happens.");
        renew(location.href); // something may have happened since it was loaded
      });
      source.addEventListener("changed", () => renew(location.href));
      source.addEventListener("error", () => {
        say("The console does not answer. Is it still running?");
      });
      source.addEventListener("over", () => {
        source.close();
        document.removeEventListener("visibilitychange", follow);
        say("The session is over. The terminal shows a new address.");
      });
    }
  }


  function say(words) {
    if (state.textContent !== words) state.textContent = words;
  }

  if (state && window.EventSource) {
    document.addEventListener("visibilitychange", follow);
    follow();
  }

  for (const form of document.querySelectorAll("form[data-instant]")) {
    let waiting;
    form.addEventListener("input", () => {
      for (const shown of form.querySelectorAll("output[for]")) {
        const field = document.getElementById(shown.htmlFor.value);
        if (field) shown.value = field.value;
      }
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        const address = form.action + "?" + new URLSearchParams(new FormData(form));
        history.replaceState(null, "", address);
        renew(address);
      }, 150);
    });
  }
})();
