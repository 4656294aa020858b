// Keeps the parts of a page that are marked data-live as they are now: asks for the page again and puts the new parts in
// place of the old ones. Not while nobody looks, and not where the reader is.
"use strict";

{
  const PAUSE = 5000;
  const LONGEST = 60000;
  let pause = PAUSE;

  function isInUse(part) {
    if (part.contains(document.activeElement)) return true;
    const chosen = getSelection();
    return !chosen.isCollapsed && part.contains(chosen.anchorNode);
  }

  function swap(fresh) {
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(part.id);
      if (!next) continue;
      if (isInUse(part) || next.innerHTML === part.dataset.seen) continue;
      const seen = next.innerHTML;
      part.replaceChildren(...next.childNodes);
      part.dataset.seen = seen;
      part.dispatchEvent(new Event("rpcgate:swapped", { bubbles: true }));
    }
  }

  async function refresh() {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(`the page was answered with ${answer.status}`);
      swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
      pause = PAUSE;
    } catch {
      // The old content stays. A server that is away, or a session that is over, is asked less and less often.
      pause = Math.min(2 * pause, LONGEST);
    }
  }

  let timer = 0;

  function wait() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      await refresh();
      wait();
    }, pause);
  }

  if (document.querySelector("[data-live]")) {
    wait();
    document.addEventListener("visibilitychange", async () => {
      if (document.hidden) return;
      await refresh();
      wait();
    });
  }
}
