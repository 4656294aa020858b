// web3.js 4 over its WebSocketProvider, with the key in the query.

import assert from "node:assert/strict";
import { Web3 } from "web3";
import { run } from "../check.mjs";

run("web3", async (chain, check) => {
  const web3 = new Web3(new Web3.providers.WebsocketProvider(`${chain.ws}?apikey=${chain.key}`));

  await check("the chain id and a block", async () => {
    assert.equal(await web3.eth.getChainId(), BigInt(chain.id));
    const block = await web3.eth.getBlock("latest");
    assert.equal((await web3.eth.getBlock(block.hash)).number, block.number);
  });

  await check("headers are told one after another", async () => {
    const subscription = await web3.eth.subscribe("newBlockHeaders");
    const numbers = [];
    await new Promise((done, failed) => {
      subscription.on("data", ({ number }) => numbers.push(BigInt(number)) === 3 && done());
      subscription.on("error", failed);
    });
    await subscription.unsubscribe();
    assert.deepEqual(numbers, [numbers[0], numbers[0] + 1n, numbers[0] + 2n]);
    return numbers.join();
  });

  if (!chain.real) {
    await check("logs of the token are told", async () => {
      const subscription = await web3.eth.subscribe("logs", { address: chain.token });
      const log = await new Promise((done) => subscription.on("data", done));
      assert.equal(log.address.toLowerCase(), chain.token);
      await subscription.unsubscribe();
    });

    await check("pending transactions are told", async () => {
      const subscription = await web3.eth.subscribe("pendingTransactions");
      const hash = await new Promise((done) => subscription.on("data", done));
      assert.equal((await web3.eth.getTransaction(hash)).hash, hash);
      await subscription.unsubscribe();
    });
  }
  web3.provider.disconnect();
});
