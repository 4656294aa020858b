// TronWeb 6, with the key in a header.

import assert from "node:assert/strict";
import { TronWeb } from "tronweb";
import { failure, run } from "../check.mjs";

/** The secret key of an account that the simulated node funds, and the address of its token. */
const SECRET = "1".padStart(64, "0");
const TOKEN = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";

/** Asks until there is an answer: a block comes every three seconds. */
async function once(ask) {
  for (let tries = 0; tries < 60; tries += 1) {
    const answer = await ask();
    if (answer) return answer;
    await new Promise((done) => setTimeout(done, 250));
  }
  return assert.fail("missing after 15 seconds");
}

run("tronweb", async (chain, check) => {
  const web = new TronWeb({ fullHost: chain.url, headers: { apikey: chain.key }, privateKey: SECRET });
  const owner = web.defaultAddress.base58;
  const payee = (await TronWeb.createAccount()).address;
  const account = (address) => web.fullNode.request("wallet/getaccount", { address: address.hex ?? address }, "post");
  // TronWeb requests receipts from the solidity API, which the gateway does not serve.
  const receipt = (id) => once(async () => {
    const found = await web.trx.getUnconfirmedTransactionInfo(id);
    return found.id && found;
  });
  let sent;

  await check("no key is a 401", async () => {
    const other = new TronWeb({ fullHost: chain.url });
    const error = await failure(other.trx.getCurrentBlock());
    assert.equal(error.response.status, 401);
    assert.equal(error.response.data.message, "No API key found in request");
  });

  await check("blocks by number and identity", async () => {
    const newest = await web.trx.getCurrentBlock();
    const { number, parentHash } = newest.block_header.raw_data;
    assert.equal((await web.trx.getBlockByNumber(number - 1)).blockID, parentHash);
    assert.equal((await web.trx.getBlockByHash(parentHash)).block_header.raw_data.number, number - 1);
    assert.equal(Number.parseInt(newest.blockID.slice(0, 16), 16), number);
  });

  await check("transactions that a block lists", async () => {
    const block = await once(async () => {
      const newest = await web.trx.getCurrentBlock();
      return newest.transactions?.length && newest;
    });
    for (const tx of block.transactions) {
      assert.deepEqual(await web.trx.getTransaction(tx.txID), tx);
      const info = await receipt(tx.txID);
      assert.equal(info.blockNumber, block.block_header.raw_data.number);
    }
  });

  await check("parameters and the node", async () => {
    const parameters = await web.trx.getChainParameters();
    assert.ok(parameters.find(({ key }) => key === "getTransactionFee").value > 0);
    assert.match((await web.trx.getNodeInfo()).block, /^Num:\d+,ID:[0-9a-f]{64}$/);
  });

  await check("coins are sent", async () => {
    const before = (await account(web.defaultAddress)).balance;
    const made = await web.transactionBuilder.sendTrx(payee.base58, 1_500_000, owner);
    sent = await web.trx.sign(made);
    const answer = await web.trx.sendRawTransaction(sent);
    assert.equal(answer.result, true);
    const info = await receipt(sent.txID);
    assert.equal((await account(payee)).balance, 1_500_000);
    assert.equal((await account(web.defaultAddress)).balance, before - 1_500_000 - (info.fee ?? 0));
    assert.equal((await web.trx.getTransaction(sent.txID)).txID, sent.txID);
  });

  await check("a second submission is a duplicate", async () => {
    const answer = await web.trx.sendRawTransaction(sent);
    assert.equal(answer.code, "DUP_TRANSACTION_ERROR");
  });

  await check("a wrong signature is refused", async () => {
    const made = await web.transactionBuilder.sendTrx(payee.base58, 1, owner);
    const other = await web.trx.sign(made, "2".padStart(64, "0"), false, false, false).catch(() => undefined);
    const answer = await web.fullNode.request(
      "wallet/broadcasttransaction",
      { ...made, signature: other?.signature ?? ["00".repeat(65)] },
      "post",
    );
    assert.equal(answer.code, "SIGERROR");
  });

  await check("a token is read and sent", async () => {
    const token = await web.contract().at(TOKEN);
    assert.equal(await token.symbol().call(), "USDT");
    const { transaction } = await web.transactionBuilder.triggerSmartContract(
      TOKEN,
      "transfer(address,uint256)",
      { feeLimit: 100_000_000 },
      [{ type: "address", value: payee.base58 }, { type: "uint256", value: 7 }],
      owner,
    );
    const signed = await web.trx.sign(transaction);
    assert.equal((await web.trx.sendRawTransaction(signed)).result, true);
    const info = await receipt(signed.txID);
    assert.equal(info.receipt.result, "SUCCESS");
    assert.equal(await token.balanceOf(payee.base58).call(), 7n);
  });
});
