// ethers 6 over its WebSocketProvider, with the key in the query.

import assert from "node:assert/strict";
import { ethers } from "ethers";
import { run } from "../check.mjs";

run("ethers", async (chain, check) => {
  // A network of its own: for Polygon's chain id ethers queries a fee service on the Internet.
  const network = new ethers.Network(chain.name, chain.id);
  const provider = new ethers.WebSocketProvider(`${chain.ws}?apikey=${chain.key}`, network, { cacheTimeout: -1 });
  const wallet = new ethers.Wallet(chain.account, provider);
  const payee = ethers.Wallet.createRandom().address;
  let hash;

  await check("the chain id and a block", async () => {
    assert.equal(await provider.send("eth_chainId", []), ethers.toQuantity(chain.id));
    const block = await provider.getBlock("latest");
    assert.equal((await provider.getBlock(block.hash)).number, block.number);
  });

  await check("blocks are told one after another", async () => {
    const numbers = [];
    await new Promise((done) => {
      provider.on("block", (number) => numbers.push(number) === 3 && done());
    });
    await provider.off("block");
    assert.deepEqual(numbers, [numbers[0], numbers[0] + 1, numbers[0] + 2]);
    return numbers.join();
  });

  await check("a payment is pending, and then in a block that the stream tells", async () => {
    const pending = new Promise((done) => {
      provider.on("pending", (found) => found === hash && done());
    });
    const fees = { maxFeePerGas: 10n ** 12n, maxPriorityFeePerGas: 10n ** 9n };
    const signed = await wallet.signTransaction(
      await wallet.populateTransaction({ to: payee, value: 5n, gasLimit: 21_000n, ...fees }),
    );
    hash = ethers.keccak256(signed);
    const sent = await provider.broadcastTransaction(signed);
    assert.equal(sent.hash, hash);
    const [receipt] = await Promise.all([sent.wait(), pending]);
    assert.equal(receipt.status, 1);
    assert.equal(await provider.getBalance(payee), 5n);
    await provider.off("pending");
  });

  if (!chain.real) {
    await check("logs of the token are told", async () => {
      const log = await new Promise((done) => provider.on({ address: chain.token }, done));
      assert.equal(log.address.toLowerCase(), chain.token);
      assert.equal((await provider.getTransactionReceipt(log.transactionHash)).blockNumber, log.blockNumber);
      await provider.off({ address: chain.token });
    });
  }

  await check("the error of a closed method is its own", async () => {
    const error = await provider.send("admin_peers", []).catch((error) => error);
    assert.equal((error.error ?? error.info?.error).code, -32601);
  });

  await check("no key is refused before the upgrade", async () => {
    const { WebSocket } = await import("ws");
    const status = await new Promise((done) => {
      const socket = new WebSocket(chain.ws);
      socket.on("unexpected-response", (_, response) => done(response.statusCode));
      socket.on("error", () => {});
    });
    assert.equal(status, 401);
  });

  await provider.destroy();
});
