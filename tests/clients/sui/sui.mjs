// @mysten/sui 1, with the key in a header; once in the query.

import assert from "node:assert/strict";
import { SuiClient, SuiHTTPTransport } from "@mysten/sui/client";
import { Ed25519Keypair } from "@mysten/sui/keypairs/ed25519";
import { Transaction } from "@mysten/sui/transactions";
import { failure, run } from "../check.mjs";

/** The secret key 1, to whose address the simulated node gives ten coins. */
const SECRET = Uint8Array.from({ length: 32 }, (_, index) => (index === 31 ? 1 : 0));
const NONE = "1".repeat(32);

run("@mysten/sui", async (chain, check) => {
  const transport = new SuiHTTPTransport({ url: chain.url, rpc: { headers: { apikey: chain.key } } });
  const client = new SuiClient({ transport });
  const signer = Ed25519Keypair.fromSecretKey(SECRET);
  const owner = signer.toSuiAddress();
  const payee = Ed25519Keypair.generate().toSuiAddress();
  const held = async (address) => BigInt((await client.getBalance({ owner: address })).totalBalance);
  const payment = (amount) => {
    const transaction = new Transaction();
    transaction.transferObjects([transaction.splitCoins(transaction.gas, [amount])[0]], payee);
    return transaction;
  };
  let sent;

  await check("the chain by its first checkpoint", async () => {
    assert.equal(await client.getChainIdentifier(), "35834a8a");
  });

  await check("the key in the query", async () => {
    const other = new SuiClient({ url: `${chain.url}?apikey=${chain.key}` });
    assert.ok((await other.getReferenceGasPrice()) > 0n);
  });

  await check("no key is a 401", async () => {
    const error = await failure(new SuiClient({ url: chain.url }).getReferenceGasPrice());
    assert.equal(error.status, 401);
  });

  await check("checkpoints link, and list transactions that are found", async () => {
    const id = await client.getLatestCheckpointSequenceNumber();
    const checkpoint = await client.getCheckpoint({ id });
    const parent = await client.getCheckpoint({ id: checkpoint.previousDigest });
    assert.equal(BigInt(parent.sequenceNumber) + 1n, BigInt(id));
    const options = { showEffects: true, showInput: true };
    const found = await client.getTransactionBlock({ digest: checkpoint.transactions[0], options });
    assert.equal(found.checkpoint, id);
    assert.ok((await client.getTotalTransactionBlocks()) >= BigInt(checkpoint.networkTotalTransactions));
    return id;
  });

  await check("a payment is executed and included in a checkpoint", async () => {
    const before = await held(owner);
    const options = { showEffects: true, showBalanceChanges: true, showObjectChanges: true, showInput: true };
    sent = await client.signAndExecuteTransaction({ transaction: payment(12_345n), signer, options });
    assert.equal(sent.effects.status.status, "success");
    assert.equal(await held(payee), 12_345n);
    const own = sent.balanceChanges.find((change) => change.owner.AddressOwner === owner);
    assert.equal((await held(owner)) - before, BigInt(own.amount));
    const found = await client.waitForTransaction({ digest: sent.digest, options });
    assert.deepEqual(found.effects, sent.effects);
    return sent.digest;
  });

  await check("objects match the effects", async () => {
    const created = sent.objectChanges.find((change) => change.type === "created");
    const options = { showContent: true, showOwner: true, showType: true };
    const { data } = await client.getObject({ id: created.objectId, options });
    assert.equal(data.version, created.version);
    assert.equal(data.digest, created.digest);
    assert.equal(data.content.fields.balance, "12345");
    assert.deepEqual(data.owner, { AddressOwner: payee });
    assert.equal((await client.getCoins({ owner: payee })).data[0].coinObjectId, created.objectId);
  });

  await check("a dry run changes nothing", async () => {
    const before = await held(payee);
    const seen = await client.devInspectTransactionBlock({ sender: owner, transactionBlock: payment(7n) });
    assert.equal(seen.effects.status.status, "success");
    assert.equal(await held(payee), before);
  });

  await check("several at once, one of them unknown", async () => {
    const [known, unknown] = await client.multiGetTransactionBlocks({ digests: [sent.digest, NONE] });
    assert.equal(known.digest, sent.digest);
    assert.equal(unknown.checkpoint, undefined);
  });

  await check("errors keep their codes", async () => {
    assert.equal((await failure(client.getTransactionBlock({ digest: NONE }))).code, -32602);
    assert.equal((await failure(client.call("no_such", []))).code, -32601);
    assert.equal((await client.getObject({ id: "0x99" })).error.code, "notExists");
  });
});
