// Keeps the parts of a page that are marked data-live as they are now: asks for the page again and puts the new parts in
// place of the old ones. Not while nobody looks, and not where the reader is. These requests say that nobody has made them,
// so they do not keep the session. When it has ended, the page says so and stays as it is.
"use strict";

{
  const PAUSE = 5000;
  const LONGEST = 60000;
  let pause = PAUSE;
  let isOver = false;
  // The result of a form is shown once: what is live in it comes from another address.
  const other = document.querySelector("[data-live-from]")?.dataset.liveFrom;
  const from = other && new URL(other, location.href);

  function isInUse(part) {
    if (part.contains(document.activeElement)) return true;
    const chosen = getSelection();
    return !chosen.isCollapsed && part.contains(chosen.anchorNode);
  }

  function swap(fresh) {
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(part.id);
      if (!next) continue;
      // Each page gives its forms other values, which is no news.
      const seen = next.innerHTML.replace(/name="once" value="[^"]*"/g, "");
      if (isInUse(part) || seen === part.dataset.seen) continue;
      if (from) {
        for (const link of next.querySelectorAll("a[href]")) {
          link.setAttribute("href", new URL(link.getAttribute("href"), from).href);
        }
      }
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
      const answer = await fetch(from ?? location.href, { headers, redirect: "error" });
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
