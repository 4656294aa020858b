// CosmJS. It appends /websocket to the whole URL: after another parameter the key is left as it is.

import assert from "node:assert/strict";
import { StargateClient } from "@cosmjs/stargate";
import { Comet38Client, connectComet } from "@cosmjs/tendermint-rpc";
import { run } from "../check.mjs";

const taken = (stream, count) =>
  new Promise((done, failed) => {
    const items = [];
    const subscription = stream.subscribe({
      next: (item) => {
        items.push(item);
        if (items.length === count) {
          subscription.unsubscribe();
          done(items);
        }
      },
      error: failed,
    });
  });

run("@cosmjs/tendermint-rpc", async (chain, check) => {
  const url = `${chain.ws}?apikey=${chain.key}&x=`;
  let comet;

  await check("it finds out the version and connects", async () => {
    comet = await connectComet(url);
    assert.ok(comet instanceof Comet38Client);
    assert.equal((await comet.status()).nodeInfo.network, "cosmoshub-4");
    await comet.health();
  });

  await check("blocks, results, commits and validators", async () => {
    const { block, blockId } = await comet.block();
    const height = block.header.height;
    assert.deepEqual((await comet.block(height)).blockId, blockId);
    assert.equal((await comet.blockResults(height)).results.length, block.txs.length);
    assert.equal((await comet.commit(height)).header.height, height);
    assert.equal((await comet.validatorsAll(height)).total, 60);
    assert.ok((await comet.blockchain(height - 3, height)).blockMetas.length === 4);
    assert.ok((await comet.abciInfo()).lastBlockHeight >= height);
  });

  await check("new blocks and headers are told one after another", async () => {
    const [blocks, headers] = await Promise.all([
      taken(comet.subscribeNewBlock(), 2),
      taken(comet.subscribeNewBlockHeader(), 2),
    ]);
    assert.equal(blocks[1].header.height, blocks[0].header.height + 1);
    assert.equal(headers[1].height, headers[0].height + 1);
    return blocks[1].header.height;
  });

  await check("transactions are told, and found by hash and search", async () => {
    const [event] = await taken(comet.subscribeTx(), 1);
    const found = await comet.tx({ hash: event.hash });
    assert.deepEqual(found.tx, event.tx);
    const searched = await comet.txSearch({ query: `tx.height=${event.height}` });
    assert.ok(searched.txs.some((tx) => Buffer.from(tx.hash).equals(Buffer.from(event.hash))));
  });

  await check("the application is queried", async () => {
    const client = await StargateClient.create(comet);
    assert.equal(await client.getChainId(), "cosmoshub-4");
    const developer = "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e7";
    assert.equal((await client.getBalance(developer, "uatom")).denom, "uatom");
    assert.ok((await client.getAllBalances(developer)).length > 0);
    assert.equal((await client.getAccount(developer)).address, developer);
  });
  comet.disconnect();
});
