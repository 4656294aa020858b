// Keeps the parts of a page that are marked data-live as they are now: asks for the page again and puts the new parts in
// place of the old ones. Not while nobody looks, and not where the reader is. These requests say that nobody has made them,
// so they do not keep the session. When it has ended, the page says so and stays as it is.
"use strict";

{
  const PAUSE = 5000;
  const LONGEST = 60000;
  let pause = PAUSE;
  let isOver = false;

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

  function end() {
    if (isOver) return;
    isOver = true;
    const note = document.getElementById("session-ended").content.firstElementChild.cloneNode(true);
    note.setAttribute("role", "alert");
    document.querySelector("main").prepend(note);
  }

  async function refresh() {
    if (document.hidden || isOver) return;
    try {
      const headers = { accept: "text/html", "rpcgate-unattended": "1" };
      const answer = await fetch(location.href, { headers, redirect: "error" });
      if (answer.status === 401) {
        end();
        return;
      }
      if (!answer.ok) throw new Error(`the page was answered with ${answer.status}`);
      swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
      pause = PAUSE;
    } catch {
      // The old content stays. A server that is away is asked less and less often.
      pause = Math.min(2 * pause, LONGEST);
    }
  }

  let timer = 0;

  function wait() {
    clearTimeout(timer);
    if (isOver) return;
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
