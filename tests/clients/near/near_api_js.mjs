// near-api-js 7, with the key in a header; once in the query.

import assert from "node:assert/strict";
import { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions, baseEncode } from "near-api-js";
import { failure, run } from "../check.mjs";

/** The Ed25519 key of the secret 1 and its public half, as the simulated node's test.near has it. */
const SECRET = "0000000000000000000000000000000000000000000000000000000000000001";
const PUBLIC = "4cb5abf6ad79fbf5abbccafcc269d85cd2651ed4b885b5869f241aedf0a5ba29";
const TOKEN = "usdt.tether-token.near";

run("near-api-js", async (chain, check) => {
  const provider = new JsonRpcProvider({ url: chain.url, headers: { apikey: chain.key } });
  const pair = KeyPair.fromString(`ed25519:${baseEncode(Buffer.from(SECRET + PUBLIC, "hex"))}`);
  const account = new Account("test.near", provider, new KeyPairSigner(pair));
  const payee = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex");
  const amount = async (accountId) => (await provider.viewAccount({ accountId })).amount;

  await check("the key in the query", async () => {
    const other = new JsonRpcProvider({ url: `${chain.url}?apikey=${chain.key}` });
    assert.equal((await other.viewNodeStatus()).chain_id, "mainnet");
  });

  await check("no key is refused", async () => {
    // It ignores the status, and fails because the body of the 401 has no result.
    const error = await failure(new JsonRpcProvider({ url: chain.url }).viewNodeStatus());
    assert.match(error.message, /must include either "result", or "error"/);
  });

  await check("blocks link, and chunks belong to them", async () => {
    const block = await provider.viewBlock({ finality: "final" });
    const parent = await provider.viewBlock({ blockId: block.header.prev_hash });
    assert.equal(parent.header.height, block.header.prev_height);
    const shown = block.chunks[0];
    const chunk = await provider.viewChunk(shown.chunk_hash);
    assert.equal(chunk.header.height_included, block.header.height);
    return block.header.height;
  });

  await check("validators and the price of gas", async () => {
    assert.ok((await provider.viewValidators()).current_validators.length > 0);
    assert.ok(BigInt((await provider.viewGasPrice()).gas_price) > 0n);
  });

  await check("a view call of a contract", async () => {
    const held = await provider.callFunction({
      contractId: TOKEN,
      method: "ft_balance_of",
      args: { account_id: "test.near" },
    });
    assert.ok(BigInt(held) > 0n);
  });

  await check("a payment is executed and found by its hash", async () => {
    const before = await amount("test.near");
    const done = await account.signAndSendTransaction({
      receiverId: payee,
      actions: [actions.transfer(10n ** 24n)],
      waitUntil: "EXECUTED_OPTIMISTIC",
    });
    assert.ok("SuccessValue" in done.status);
    assert.equal(await amount(payee), 10n ** 24n);
    assert.ok(before - (await amount("test.near")) > 10n ** 24n);
    const found = await provider.viewTransactionStatus({ txHash: done.transaction.hash, accountId: "test.near" });
    assert.equal(found.transaction.receiver_id, payee);
    return done.transaction.hash;
  });

  await check("tokens move", async () => {
    const done = await account.signAndSendTransaction({
      receiverId: TOKEN,
      actions: [actions.functionCall("ft_transfer", { receiver_id: payee, amount: "25" }, 30_000_000_000_000n, 1n)],
    });
    assert.match(done.receipts_outcome[0].outcome.logs[0], /^EVENT_JSON:/);
    const held = await provider.callFunction({ contractId: TOKEN, method: "ft_balance_of", args: { account_id: payee } });
    assert.equal(held, "25");
  });

  await check("errors keep their names", async () => {
    const names = [
      [() => provider.viewAccount({ accountId: "nobody.near" }), "AccountDoesNotExistError"],
      [() => provider.viewBlock({ blockId: 5 }), "UnknownBlockError"],
      [() => provider.viewTransactionStatus({ txHash: "1".repeat(32), accountId: "test.near" }), "UnknownTransactionError"],
      [
        () => account.signAndSendTransaction({ receiverId: "nobody.near", actions: [actions.transfer(1n)] }),
        "AccountDoesNotExistActionError",
      ],
    ];
    for (const [call, name] of names) {
      assert.equal((await failure(call())).constructor.name, name);
    }
  });
});
