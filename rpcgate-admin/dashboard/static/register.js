// The proof of work for a registration: a worker solves the challenge when the form is sent.
"use strict";

{
  const form = document.getElementById("register");
  const button = form.querySelector("button");
  const work = document.getElementById("work");
  const done = document.getElementById("done");

  function solve(challenge, report) {
    return new Promise((resolve, reject) => {
      const worker = new Worker(form.dataset.solver);
      worker.addEventListener("message", ({ data }) => {
        if (data.solution === undefined) {
          report(data.part);
        } else {
          worker.terminate();
          resolve(data.solution);
        }
      });
      worker.addEventListener("error", (event) => {
        worker.terminate();
        reject(new Error(event.message));
      });
      worker.postMessage(challenge);
    });
  }

  function rest(text) {
    button.disabled = false;
    done.hidden = true;
    work.textContent = text;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    done.value = 0;
    done.hidden = false;
    work.textContent = "One moment: your browser solves a small puzzle, which keeps bots away.";
    try {
      const answer = await fetch(form.dataset.challenge, { cache: "no-store" });
      if (!answer.ok) throw new Error(`the challenge was answered with ${answer.status}`);
      form.elements.challenge.value = await solve(await answer.json(), (part) => {
        done.value = part;
      });
      done.value = 1;
      form.submit();
    } catch (error) {
      console.error(error);
      rest("The puzzle could not be solved. Try again in a moment.");
    }
  });

  // When the user goes back, the browser may show the page in its old state, still waiting for the answer.
  addEventListener("pageshow", (event) => {
    if (event.persisted) rest("");
  });
}
