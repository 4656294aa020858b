// xrpl.js 5, with the key in the query; once in a header.

import assert from "node:assert/strict";
import xrpl from "xrpl";
import { run } from "../check.mjs";

const { Client, ECDSA, Wallet } = xrpl;

run("xrpl", async (chain, check) => {
  const client = new Client(`${chain.ws}?apikey=${chain.key}`);

  await check("it connects and reads the server", async () => {
    await client.connect();
    const { result } = await client.request({ command: "server_info" });
    assert.equal(result.info.server_state, "full");
  });

  await check("the key in a header", async () => {
    const other = new Client(chain.ws, { headers: { apikey: chain.key } });
    await other.connect();
    assert.ok((await other.getLedgerIndex()) > 0);
    await other.disconnect();
  });

  await check("closed ledgers are told one after another", async () => {
    const indices = [];
    await client.request({ command: "subscribe", streams: ["ledger"] });
    await new Promise((done) => client.on("ledgerClosed", ({ ledger_index }) => indices.push(ledger_index) === 3 && done()));
    await client.request({ command: "unsubscribe", streams: ["ledger"] });
    assert.deepEqual(indices, [indices[0], indices[0] + 1, indices[0] + 2]);
    return indices.join();
  });

  await check("a payment is told to those who watch the account", async () => {
    const payer = Wallet.fromSeed("snoPBrXtMeMyMHUVTgbuqAfg1SUTb", { algorithm: ECDSA.secp256k1 });
    const payee = Wallet.generate();
    await client.request({ command: "subscribe", accounts: [payee.address] });
    const told = new Promise((done) => client.on("transaction", done));
    const payment = { TransactionType: "Payment", Account: payer.address, Destination: payee.address, Amount: "20000000" };
    const { result } = await client.submitAndWait(payment, { wallet: payer });
    assert.equal(result.meta.TransactionResult, "tesSUCCESS");
    assert.equal((await told).hash, result.hash);
    assert.equal(await client.getXrpBalance(payee.address), 20);
  });

  await check("an account that does not exist", async () => {
    const error = await client.request({ command: "account_info", account: Wallet.generate().address }).catch((error) => error);
    assert.equal(error.data.error, "actNotFound");
  });
  await client.disconnect();
});
