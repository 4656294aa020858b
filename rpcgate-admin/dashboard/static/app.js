// Small comforts. Every page works without this file.
"use strict";

{
  // What stands on the page at first, and what the live refresh puts there later.
  function enhance(root) {
    // Copy buttons: shown only where copying works. The text is that of the code beside the button,
    // of several each in a line.
    for (const button of root.querySelectorAll("[data-copy][hidden]")) {
      if (!navigator.clipboard) break;
      const label = button.textContent;
      button.hidden = false;
      button.setAttribute("aria-live", "polite");
      button.addEventListener("click", async () => {
        const codes = [...button.parentElement.querySelectorAll("code")].map((code) => code.textContent);
        await navigator.clipboard.writeText(codes.join("\n"));
        button.textContent = "Copied";
        setTimeout(() => {
          button.textContent = label;
        }, 2000);
      });
    }

    // Times are written in UTC; the reader's own zone stands in the title.
    for (const time of root.querySelectorAll("time[datetime*='T']")) {
      time.title = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
    }

    // What only a browser with passkeys can do.
    if (window.PublicKeyCredential) {
      for (const each of root.querySelectorAll("[data-passkey]")) each.hidden = false;
    }
  }

  enhance(document);
  document.addEventListener("rpcgate:swapped", (event) => enhance(event.target));

  // The theme changes at once; the server keeps it in a cookie for the next page.
  for (const form of document.querySelectorAll("form[action$='theme']")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const theme = event.submitter.value;
      if (theme === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = theme;
      for (const each of form.querySelectorAll("button")) each.setAttribute("aria-pressed", each === event.submitter);
      fetch(form.action, {
        method: "POST",
        redirect: "manual",
        body: new URLSearchParams(new FormData(form, event.submitter)),
      }).catch(() => {});
    });
  }

  // The language of code that was chosen last is shown first on the next page.
  document.addEventListener("change", (event) => {
    if (!event.target.matches("input[data-language]")) return;
    const path = new URL(document.documentElement.dataset.root || "./", location.href).pathname;
    const language = encodeURIComponent(event.target.value);
    document.cookie = `rpcgate-language=${language}; Path=${path}; Max-Age=31536000; SameSite=Lax`;
  });
}
