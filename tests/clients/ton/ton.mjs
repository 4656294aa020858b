// @ton/ton 16, with the key as its option `apiKey`, which becomes X-API-Key.

import assert from "node:assert/strict";
import { Address } from "@ton/core";
import { keyPairFromSeed } from "@ton/crypto";
import { TonClient, WalletContractV4, internal } from "@ton/ton";
import { failure, run } from "../check.mjs";

/** The seed of a wallet's secret key that the simulated node funds. */
const SEED = Buffer.from("1".padStart(64, "0"), "hex");

/** Asks until there is an answer: a block comes every five seconds. */
async function once(ask) {
  for (let tries = 0; tries < 80; tries += 1) {
    const answer = await ask();
    if (answer) return answer;
    await new Promise((done) => setTimeout(done, 250));
  }
  return assert.fail("missing after 20 seconds");
}

run("@ton/ton", async (chain, check) => {
  const endpoint = `${chain.url}/jsonRPC`;
  const client = new TonClient({ endpoint, apiKey: chain.key });
  const { publicKey, secretKey } = keyPairFromSeed(SEED);
  const wallet = client.open(WalletContractV4.create({ workchain: 0, publicKey }));
  const payee = new Address(0, keyPairFromSeed(Buffer.from(crypto.getRandomValues(new Uint8Array(32)))).publicKey);

  await check("no key is a 401", async () => {
    const error = await failure(new TonClient({ endpoint }).getMasterchainInfo());
    assert.equal(error.response.status, 401);
  });

  await check("the masterchain, its shards and their transactions", async () => {
    const { latestSeqno } = await client.getMasterchainInfo();
    const [shard] = await client.getWorkchainShards(latestSeqno);
    const [first] = await client.getShardTransactions(shard.workchain, shard.seqno, shard.shard);
    const [found] = await client.getTransactions(first.account, {
      limit: 1,
      lt: first.lt,
      hash: first.hash,
      inclusive: true,
    });
    assert.equal(found.lt.toString(), first.lt);
  });

  await check("an account's history", async () => {
    const { latestSeqno } = await client.getMasterchainInfo();
    const [shard] = await client.getWorkchainShards(latestSeqno);
    const [first] = await client.getShardTransactions(shard.workchain, shard.seqno, shard.shard);
    const history = await client.getTransactions(first.account, { limit: 12 });
    assert.equal(history.length, 12);
    history.slice(1).forEach((older, place) => assert.equal(history[place].prevTransactionLt, older.lt));
  });

  await check("coins are sent", async () => {
    const [seqno, before] = [await wallet.getSeqno(), await wallet.getBalance()];
    const messages = [internal({ to: payee, value: "1.5", bounce: false, body: "hello" })];
    await wallet.sendTransfer({ seqno, secretKey, messages });
    await once(async () => (await wallet.getSeqno()) === seqno + 1);
    assert.equal(await client.getBalance(payee), 1_500_000_000n);
    const [arrived] = await client.getTransactions(payee, { limit: 5 });
    assert.equal(arrived.inMessage.info.value.coins, 1_500_000_000n);
    const [order] = await client.getTransactions(wallet.address, { limit: 1 });
    assert.equal(order.outMessagesCount, 1);
    assert.ok((await wallet.getBalance()) < before - 1_500_000_000n);
  });

  await check("an order with another sequence number is refused", async () => {
    const messages = [internal({ to: payee, value: "1", bounce: false })];
    const error = await failure(wallet.sendTransfer({ seqno: 1_000, secretKey, messages }));
    assert.equal(error.response.status, 500);
    assert.match(error.response.data.error, /exitcode=33/);
  });

  await check("a missing get method", async () => {
    assert.equal((await client.runMethodWithError(wallet.address, "nothing")).exit_code, 11);
  });
});
