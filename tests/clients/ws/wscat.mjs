// wscat, as the demo's welcome text shows it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { run } from "../check.mjs";

const program = createRequire(import.meta.url).resolve("wscat/bin/wscat");
const message = '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}';

/** What wscat prints, until `enough` of it is there or it ends. */
const printed = (options, enough) =>
  new Promise((done) => {
    const process_ = spawn(process.execPath, [program, ...options], { stdio: ["pipe", "pipe", "pipe"] });
    let text = "";
    const read = (part) => {
      text += part;
      if (enough.test(text)) process_.kill();
    };
    process_.stdout.on("data", read);
    process_.stderr.on("data", read);
    process_.on("close", () => done(text));
  });

run("wscat", async (chain, check) => {
  for (const [title, options] of [
    ["in the query", ["-c", `${chain.ws}?apikey=${chain.key}`]],
    ["in a header", ["-c", chain.ws, "-H", `apikey:${chain.key}`]],
  ]) {
    await check(`new blocks are printed, with the key ${title}`, async () => {
      const text = await printed([...options, "-w", "60", "-x", message], /eth_subscription/);
      assert.match(text, /"method":"eth_subscription"/);
    });
  }

  await check("no key is a 401", async () => {
    const text = await printed(["-c", chain.ws], /401/);
    assert.match(text, /401/);
  });
});
