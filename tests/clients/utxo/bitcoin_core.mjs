// bitcoin-core 5: it sends no Content-Type, string ids, no version, and always a slash after the path.

import assert from "node:assert/strict";
import Client from "bitcoin-core";
import { failure, run } from "../check.mjs";

const NONE = `${"00".repeat(31)}01`;
/** The secret key 1 on a regtest: as the wallet's import format writes it, and the address that pays to it. */
const SECRET = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
const CLOSED = [-32601, "method not available"];

const seen = (error) => [error.code, error.message];

async function node(chain, method, params) {
  const headers = { "content-type": "application/json", authorization: chain.login };
  const body = JSON.stringify({ id: 1, method, params });
  return (await fetch(chain.direct, { method: "POST", headers, body })).json();
}

run("bitcoin-core", async (chain, check) => {
  const login = { username: "someone", password: "else" };
  const client = new Client({ host: chain.url, headers: { apikey: chain.key }, ...login });
  let height;

  await check("blocks by height and hash", async () => {
    height = await client.getBlockCount();
    const hash = await client.getBlockHash(height - 1);
    const block = await client.getBlock(hash);
    assert.equal(block.hash, hash);
    assert.equal(block.height, height - 1);
    assert.equal((await client.getBlockHeader(hash)).merkleroot, block.merkleroot);
  });

  await check("the node's state", async () => {
    assert.ok((await client.getBlockchainInfo()).blocks >= height);
    assert.ok((await client.getMempoolInfo()).size >= 0);
    return (await client.getNetworkInfo()).subversion;
  });

  await check("an absent output is null", async () => {
    assert.equal(await client.getTxOut(NONE, 0), null);
  });

  await check("a batch, with an error beside results", async () => {
    const [count, failed, info] = await client.command([
      { method: "getblockcount", parameters: [] },
      { method: "getblockhash", parameters: [999_999_999] },
      { method: "getmininginfo", parameters: [] },
    ]);
    assert.ok(count >= height && info.blocks >= height);
    assert.equal(failed.code, -8);
  });

  await check("a batch of one", async () => {
    const answers = await client.command([{ method: "getblockcount", parameters: [] }]);
    assert.equal(answers.length, 1);
    assert.ok(answers[0] >= height);
  });

  await check("the node's errors", async () => {
    for (const [method, parameters, code] of [
      ["getblockhash", [999_999_999], -8],
      ["getrawtransaction", [NONE], -5],
      ["sendrawtransaction", ["00"], -22],
      ["nosuchmethod", [], -32601],
    ]) {
      const error = await failure(client.command(method, ...parameters));
      assert.equal(error.code, code, method);
      if (chain.real) {
        const own = (await node(chain, method, parameters)).error;
        assert.deepEqual(seen(error), [own.code, own.message]);
      }
    }
  });

  await check("wallet and control methods are closed", async () => {
    for (const [method, ...parameters] of [
      ["generatetoaddress", 1, chain.address],
      ["getbalance"],
      ["dumpprivkey", chain.address],
      ["stop"],
    ]) {
      assert.deepEqual(seen(await failure(client.command(method, ...parameters))), CLOSED, method);
    }
    if (chain.real) assert.equal((await node(chain, "getblockcount", [])).error, null);
  });

  await check("no key is a 401", async () => {
    const error = await failure(new Client({ host: chain.url, ...login }).getBlockCount());
    // It does not expose the status; this is its code for answers without a code.
    assert.deepEqual([error.name, error.code], ["RpcError", -32603]);
  });

  if (!chain.real) return;
  await check("a transaction built and signed by the node is sent, found and mined", async () => {
    const [block] = (await node(chain, "generatetoaddress", [101, chain.address])).result;
    const [coinbase] = (await client.getBlock(block)).tx;
    const { vout } = await client.getRawTransaction(coinbase, 1, block);
    const output = vout.find((one) => one.value > 1);
    const amount = (output.value - 0.001).toFixed(8);
    const inputs = [{ txid: coinbase, vout: output.n }];
    const unsigned = await client.createRawTransaction(inputs, [{ [chain.address]: amount }]);
    const signed = await client.signRawTransactionWithKey(unsigned, [SECRET]);
    assert.equal(signed.complete, true);
    const { txid } = await client.decodeRawTransaction(signed.hex);
    assert.equal((await failure(client.getRawTransaction(txid))).code, -5);
    assert.equal(await client.sendRawTransaction(signed.hex), txid);
    assert.equal(await client.getRawTransaction(txid), signed.hex);
    await node(chain, "generatetoaddress", [1, chain.address]);
    assert.equal((await client.getTxOut(txid, 0)).value.toFixed(8), amount);
    return txid;
  });
});
