// viem 2 over its webSocket transport, with the key in the query.

import assert from "node:assert/strict";
import { createPublicClient, createWalletClient, defineChain, webSocket } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { run } from "../check.mjs";

run("viem", async (chain, check) => {
  const currency = { name: "Coin", symbol: "COIN", decimals: 18 };
  const described = defineChain({ id: chain.id, name: chain.name, nativeCurrency: currency, rpcUrls: { default: { http: [] } } });
  const transport = webSocket(`${chain.ws}?apikey=${chain.key}`, { keepAlive: { interval: 1_000 } });
  const client = createPublicClient({ chain: described, transport, cacheTime: 0 });
  const account = privateKeyToAccount(chain.account);
  const wallet = createWalletClient({ account, chain: described, transport });

  await check("the chain id and a block", async () => {
    assert.equal(await client.getChainId(), chain.id);
    const block = await client.getBlock();
    assert.equal((await client.getBlock({ blockHash: block.hash })).number, block.number);
  });

  await check("blocks are told one after another, while keep-alives pass", async () => {
    const numbers = [];
    await new Promise((done, failed) => {
      const stop = client.watchBlockNumber({
        onBlockNumber: (number) => numbers.push(number) === 3 && (stop(), done()),
        onError: failed,
      });
    });
    assert.deepEqual(numbers, [numbers[0], numbers[0] + 1n, numbers[0] + 2n]);
    return numbers.join();
  });

  await check("a payment is pending, and then in a block", async () => {
    const told = [];
    const stop = client.watchPendingTransactions({ onTransactions: (hashes) => told.push(...hashes) });
    const to = privateKeyToAccount(generatePrivateKey()).address;
    const hash = await wallet.sendTransaction({ to, value: 7n });
    const receipt = await client.waitForTransactionReceipt({ hash });
    assert.equal(receipt.status, "success");
    assert.ok(told.includes(hash), told.join());
    assert.equal(await client.getBalance({ address: to }), 7n);
    stop();
  });

  if (!chain.real) {
    await check("logs of the token are told", async () => {
      const log = await new Promise((done, failed) => {
        const stop = client.watchEvent({ address: chain.token, onLogs: ([log]) => (stop(), done(log)), onError: failed });
      });
      assert.equal((await client.getTransactionReceipt({ hash: log.transactionHash })).blockNumber, log.blockNumber);
    });
  }
});
