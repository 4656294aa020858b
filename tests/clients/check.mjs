// Shared code of the JavaScript clients: the address of the gateway, and the record of a check.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** Milliseconds that one check may take: the longest waits for the next UTC minute. */
const PATIENCE = 100_000;

const show = (error) => String(error?.stack ?? error).slice(0, 1500);

export function version(name) {
  const require = createRequire(import.meta.url);
  try {
    return require(`${name}/package.json`).version;
  } catch {
    // Some packages do not export the file.
    return JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url))).version;
  }
}

/**
 * Runs `body(chain, check)` for every chain at the same time and ends the process. A check that does not end reports what
 * `meanwhile()` returns.
 */
export async function run(name, body) {
  const { chains } = JSON.parse(readFileSync(process.argv[2]));
  const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  report({ version: version(name) });
  const one = async (chain) => {
    const check = async (title, test, meanwhile = () => "") => {
      const start = Date.now();
      let timer;
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not done after ${PATIENCE} ms ${meanwhile()}`)), PATIENCE);
      });
      const line = { chain: chain.name, check: title, ok: true };
      try {
        line.note = await Promise.race([test(), late]);
      } catch (error) {
        line.ok = false;
        line.note = show(error);
      } finally {
        clearTimeout(timer);
      }
      report({ ...line, ms: Date.now() - start });
    };
    try {
      await body(chain, check);
    } catch (error) {
      report({ chain: chain.name, check: "runs to its end", ok: false, note: show(error) });
    }
  };
  await Promise.all(chains.map(one));
  report({ done: true });
  // Polling clients would keep the process alive; output to a pipe may still be pending.
  process.stdout.write("", () => process.exit(0));
}

/** What the node itself answers to a call, without the gateway. */
export async function direct(chain, method, params) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const answer = await fetch(chain.direct, { method: "POST", headers, body });
  return answer.json();
}

/** The error of a call that must fail. */
export async function failure(promise) {
  let result;
  try {
    result = await promise;
  } catch (error) {
    return error;
  }
  assert.fail(`succeeded with ${String(result)}`);
}

/** Waits until the current UTC minute has this many seconds left. */
export async function minuteWith(seconds) {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < seconds * 1000) {
    await new Promise((done) => setTimeout(done, left + 500));
  }
}
