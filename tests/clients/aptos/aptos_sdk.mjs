// The TypeScript SDK of Aptos, with the key in a header.

import assert from "node:assert/strict";
import { Account, Aptos, AptosConfig, Ed25519PrivateKey, Network } from "@aptos-labs/ts-sdk";
import { failure, run } from "../check.mjs";

/** The secret key of an account that the simulated node funds. */
const SECRET = `0x${"01".repeat(32)}`;
const COIN = "0x1::aptos_coin::AptosCoin";

run("@aptos-labs/ts-sdk", async (chain, check) => {
  const fullnode = `${chain.url}/v1`;
  const client = (HEADERS) =>
    new Aptos(new AptosConfig({ network: Network.MAINNET, fullnode, clientConfig: { HEADERS } }));
  const aptos = client({ apikey: chain.key });
  const owner = Account.fromPrivateKey({ privateKey: new Ed25519PrivateKey(SECRET) });
  const accountAddress = owner.accountAddress;
  const payee = Account.generate().accountAddress;
  const balance = async (address) => {
    const [amount] = await aptos.view({
      payload: { function: "0x1::coin::balance", typeArguments: [COIN], functionArguments: [address] },
    });
    return Number(amount);
  };
  const send = async (transaction) => {
    const { hash } = await aptos.signAndSubmitTransaction({ signer: owner, transaction });
    return aptos.waitForTransaction({ transactionHash: hash });
  };

  await check("no key is a 401", async () => {
    const error = await failure(client({}).getLedgerInfo());
    assert.equal(error.status, 401);
  });

  await check("the ledger and its blocks", async () => {
    const ledger = await aptos.getLedgerInfo();
    assert.equal(ledger.chain_id, 1);
    assert.equal(await aptos.getChainId(), 1);
    const blockHeight = Number(ledger.block_height) - 1;
    const block = await aptos.getBlockByHeight({ blockHeight, options: { withTransactions: true } });
    assert.equal(block.transactions[0].type, "block_metadata_transaction");
    const [first] = block.transactions;
    assert.deepEqual(await aptos.getTransactionByVersion({ ledgerVersion: Number(first.version) }), first);
    assert.deepEqual(await aptos.getTransactionByHash({ transactionHash: first.hash }), first);
    assert.equal((await aptos.getBlockByVersion({ ledgerVersion: Number(first.version) })).block_hash, block.block_hash);
    assert.equal((await aptos.getTransactions({ options: { limit: 3 } })).length, 3);
  });

  await check("accounts, coins and views", async () => {
    const info = await aptos.getAccountInfo({ accountAddress });
    assert.equal(info.authentication_key, accountAddress.toString());
    assert.ok((await aptos.getAccountResources({ accountAddress })).length > 0);
    assert.ok((await balance(accountAddress)) > 0);
    const [symbol] = await aptos.viewJson({
      payload: { function: "0x1::coin::symbol", typeArguments: [COIN], functionArguments: [] },
    });
    assert.equal(symbol, "APT");
    assert.ok((await aptos.getGasPriceEstimation()).gas_estimate >= 100);
  });

  await check("missing objects", async () => {
    const unknown = await failure(aptos.getTransactionByHash({ transactionHash: `0x${"12".repeat(32)}` }));
    assert.equal(unknown.status, 404);
    assert.equal(unknown.data.error_code, "transaction_not_found");
    const account = await failure(aptos.getAccountInfo({ accountAddress: payee }));
    assert.equal(account.data.error_code, "account_not_found");
    const block = await failure(aptos.getBlockByHeight({ blockHeight: 1 }));
    assert.deepEqual([block.status, block.data.error_code], [410, "block_pruned"]);
  });

  await check("a transfer, simulated, sent and found", async () => {
    const before = await balance(accountAddress);
    const transaction = await aptos.transaction.build.simple({
      sender: accountAddress,
      data: { function: "0x1::aptos_account::transfer", functionArguments: [payee, 777] },
    });
    const [simulated] = await aptos.transaction.simulate.simple({ signerPublicKey: owner.publicKey, transaction });
    assert.equal(simulated.success, true);
    const done = await send(transaction);
    assert.equal(done.gas_used, simulated.gas_used);
    assert.deepEqual(await aptos.getTransactionByVersion({ ledgerVersion: Number(done.version) }), done);
    const fee = Number(done.gas_used) * Number(done.gas_unit_price);
    assert.deepEqual([await balance(payee), await balance(accountAddress)], [777, before - 777 - fee]);
    const sent = await aptos.getAccountTransactions({ accountAddress });
    assert.ok(sent.some((one) => one.hash === done.hash));
    return done.hash;
  });

  await check("a transfer of a coin", async () => {
    const transaction = await aptos.transferCoinTransaction({ sender: accountAddress, recipient: payee, amount: 5 });
    assert.equal((await send(transaction)).payload.function, "0x1::aptos_account::transfer_coins");
  });

  await check("a transaction that is refused", async () => {
    const transaction = await aptos.transferCoinTransaction({
      sender: accountAddress,
      recipient: payee,
      amount: 5,
      options: { gasUnitPrice: 1 },
    });
    const error = await failure(aptos.signAndSubmitTransaction({ signer: owner, transaction }));
    assert.deepEqual([error.status, error.data.error_code, error.data.vm_error_code], [400, "vm_error", 16]);
  });
});
