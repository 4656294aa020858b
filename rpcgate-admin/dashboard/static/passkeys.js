// Passkeys: for a form with data-passkey ("create" or "get"), a button with data-use asks the server for a ceremony at
// data-start, lets the browser make or use a passkey, puts its answer into the form and sends it. The page is the same
// without this script, but for that button.
"use strict";
(() => {
  const decode = (text) => {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (letter) => letter.charCodeAt(0)).buffer;
  };
  const encode = (buffer) => {
    let plain = "";
    for (const byte of new Uint8Array(buffer)) plain += String.fromCharCode(byte);
    return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  };
  const known = (list) => (list || []).map((one) => ({ ...one, id: decode(one.id) }));

  const options = (sent) => {
    const key = { ...sent.publicKey, challenge: decode(sent.publicKey.challenge) };
    if (key.user) key.user = { ...key.user, id: decode(key.user.id) };
    if (key.excludeCredentials) key.excludeCredentials = known(key.excludeCredentials);
    if (key.allowCredentials) key.allowCredentials = known(key.allowCredentials);
    return { publicKey: key };
  };

  const written = (made) => {
    const { response } = made;
    const parts = { clientDataJSON: encode(response.clientDataJSON) };
    for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (response[name]) parts[name] = encode(response[name]);
    }
    if (response.getTransports) parts.transports = response.getTransports();
    const extensions = made.getClientExtensionResults();
    return JSON.stringify({ id: made.id, rawId: encode(made.rawId), type: made.type, response: parts, extensions });
  };

  const words = (error) => {
    switch (error.name) {
      case "NotAllowedError":
        return "It was cancelled, or took too long. Try again.";
      case "InvalidStateError":
        return "This device has a passkey for your account already.";
      case "SecurityError":
        return "Browsers create no passkeys for this address.";
      default:
        return error.message;
    }
  };

  const run = async (form) => {
    const fields = new URLSearchParams(new FormData(form));
    fields.delete("ceremony");
    fields.delete("credential");
    const answer = await fetch(form.dataset.start, { method: "POST", body: fields });
    const begun = await answer.json().catch(() => ({ error: "Load the page again." }));
    if (!begun.ceremony) throw new Error(begun.error || "Load the page again.");
    const asked = options(begun.options);
    const made =
      form.dataset.passkey === "create" ? await navigator.credentials.create(asked) : await navigator.credentials.get(asked);
    form.elements.ceremony.value = begun.ceremony;
    form.elements.credential.value = written(made);
    form.submit();
  };

  if (!window.PublicKeyCredential) return;
  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const button = form.querySelector("[data-use]");
    const problem = form.querySelector("[data-problem]");
    if (!button) continue;
    form.hidden = false;
    button.hidden = false;
    if (form.dataset.passkey === "create") {
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        button.click();
      });
    }
    button.addEventListener("click", async () => {
      // A new passkey has a name, which the form checks.
      if (form.dataset.passkey === "create" && !form.reportValidity()) return;
      button.disabled = true;
      problem.hidden = true;
      try {
        await run(form);
      } catch (error) {
        problem.textContent = words(error);
        problem.hidden = false;
      } finally {
        button.disabled = false;
      }
    });
  }
})();
