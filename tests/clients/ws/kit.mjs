// @solana/kit, with the key in the query.

import assert from "node:assert/strict";
import { address, createSolanaRpcSubscriptions } from "@solana/kit";
import { run } from "../check.mjs";

const SYSTEM = address("11111111111111111111111111111111");

run("@solana/kit", async (chain, check) => {
  const client = createSolanaRpcSubscriptions(`${chain.ws}?apikey=${chain.key}`);
  const taken = async (request, count) => {
    const abort = new AbortController();
    const items = [];
    for await (const item of await request.subscribe({ abortSignal: abort.signal })) {
      if (items.push(item) === count) break;
    }
    abort.abort();
    return items;
  };

  await check("slots are told one after another, longer than a ping takes", async () => {
    const slots = await taken(client.slotNotifications(), 20);
    assert.equal(slots[19].slot, slots[0].slot + 19n);
    return String(slots[19].slot);
  });

  await check("roots", async () => {
    const [one, two] = await taken(client.rootNotifications(), 2);
    assert.equal(two, one + 1n);
  });

  let payer;
  await check("accounts of a program, and one of them alone", async () => {
    const options = { commitment: "confirmed", encoding: "base64" };
    const [told] = await taken(client.programNotifications(SYSTEM, options), 1);
    payer = told.value.pubkey;
    const [account] = await taken(client.accountNotifications(payer, options), 1);
    assert.equal(account.value.owner, SYSTEM);
    assert.notEqual(account.value.lamports, told.value.account.lamports);
  });

  await check("logs, and the signature of a transaction", async () => {
    const [logs] = await taken(client.logsNotifications({ mentions: [payer] }, { commitment: "processed" }), 1);
    assert.equal(logs.value.err, null);
    const wanted = client.signatureNotifications(logs.value.signature, { commitment: "finalized" });
    const [told] = await taken(wanted, 1);
    assert.equal(told.value.err, null);
    assert.ok(told.context.slot >= logs.context.slot);
  });
});
