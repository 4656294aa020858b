// @cardano-ogmios/client 6. It asks for the health over HTTP first, which only the node itself answers.

import assert from "node:assert/strict";
import {
  createChainSynchronizationClient,
  createInteractionContext,
  createLedgerStateQueryClient,
} from "@cardano-ogmios/client";
import { run } from "../check.mjs";

run("@cardano-ogmios/client", async (chain, check) => {
  const address = { http: chain.node_http, webSocket: `${chain.ws}?apikey=${chain.key}` };
  let context;

  await check("it connects", async () => {
    context = await createInteractionContext(console.error, () => {}, { connection: { address } });
  });

  await check("the state of the ledger is queried", async () => {
    const client = await createLedgerStateQueryClient(context);
    assert.ok((await client.networkBlockHeight()) > 0);
    assert.ok((await client.epoch()) > 500);
    assert.ok((await client.protocolParameters()).minFeeCoefficient > 0);
    const tip = await client.networkTip();
    await client.acquireLedgerState(tip);
    await client.releaseLedgerState();
  });

  await check("blocks are told as they come", async () => {
    const seen = [];
    let done;
    const enough = new Promise((resolve) => (done = resolve));
    const client = await createChainSynchronizationClient(context, {
      rollForward: async ({ block, tip }, next) => {
        seen.push(block);
        assert.ok(tip.height >= block.height);
        if (seen.length === 2) done();
        next();
      },
      rollBackward: async (_, next) => next(),
    });
    await client.resume();
    await enough;
    assert.equal(seen[1].ancestor, seen[0].id);
    assert.equal(seen[1].height, seen[0].height + 1);
    return seen[1].height;
  });
  context.socket.close();
});
