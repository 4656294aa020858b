// web3.js 4 over its HttpProvider, with the key in a header; once in the query.

import assert from "node:assert/strict";
import { Web3 } from "web3";
import { direct, failure, minuteWith, run } from "../check.mjs";
import { EMPTY, contract, token } from "./fixture.mjs";

/** What the node said, wherever web3.js has put it. */
const said = (error) => {
  const found = error.cause ?? error.innerError ?? error;
  return Array.isArray(found) ? found[0] : found;
};

run("web3", async (chain, check) => {
  const headers = { apikey: chain.key };
  const web3 = new Web3(new Web3.providers.HttpProvider(chain.url, { providerOptions: { headers } }));
  const account = web3.eth.accounts.wallet.add(chain.account)[0];
  const payee = web3.eth.accounts.create().address;
  const raw = (method, params) => web3.requestManager.send({ method, params });
  let hash;
  let deployed;

  await check("the chain id", async () => {
    assert.equal(await web3.eth.getChainId(), BigInt(chain.id));
    assert.equal(await web3.eth.net.getId(), BigInt(chain.id));
  });

  await check("the key in the query", async () => {
    const other = new Web3(`${chain.url}?apikey=${chain.key}`);
    assert.equal(await other.eth.getChainId(), BigInt(chain.id));
  });

  await check("no key is a 401", async () => {
    const error = await failure(new Web3(chain.url).eth.getChainId());
    assert.equal(error.statusCode, 401, String(error));
  });

  await check("blocks by tag, number and hash", async () => {
    const newest = await web3.eth.getBlock("latest");
    assert.equal((await web3.eth.getBlock(newest.number, true)).hash, newest.hash);
    assert.equal((await web3.eth.getBlock(newest.hash)).number, newest.number);
    assert.ok((await web3.eth.getBlockNumber()) > 0n);
  });

  await check("account and fees", async () => {
    assert.ok((await web3.eth.getBalance(account.address)) > 0n);
    assert.ok((await web3.eth.getGasPrice()) > 0n);
    assert.equal(await web3.eth.getCode(EMPTY), "0x");
    // BNB Smart Chain has no base fee, so web3.js computes no maximum fee there.
    assert.ok((await web3.eth.calculateFeeData()).maxFeePerGas > 0n || chain.name === "bsc");
  });

  await check("a batch request", async () => {
    const batch = new web3.BatchRequest();
    const results = ["eth_chainId", "eth_blockNumber", "eth_gasPrice"].map((method, index) =>
      batch.add({ jsonrpc: "2.0", id: index + 10, method, params: [] }),
    );
    await batch.execute();
    const [id, ...others] = await Promise.all(results);
    assert.equal(BigInt(id), BigInt(chain.id));
    for (const other of others) assert.ok(BigInt(other) > 0n);
  });

  await check("an unknown method's error is the node's", async () => {
    const error = said(await failure(raw("eth_noSuchMethod", [])));
    assert.equal(error.code, -32601);
    if (chain.direct) assert.deepEqual({ ...error }, (await direct(chain, "eth_noSuchMethod", [])).error);
  });

  await check("debug, trace and control methods are closed", async () => {
    const traced = await failure(raw("debug_traceTransaction", [`0x${"00".repeat(32)}`]));
    if (chain.name === "eth") {
      assert.equal(traced.statusCode, 403);
    } else {
      assert.equal(said(traced).code, -32601);
    }
    for (const method of ["trace_block", "admin_peers", "personal_listAccounts"]) {
      const error = said(await failure(raw(method, ["latest"])));
      assert.deepEqual([error.code, error.message], [-32601, "method not available"], method);
    }
  });

  await check("a transaction signed here is mined", async () => {
    const before = await web3.eth.getTransactionCount(account.address);
    const receipt = await web3.eth.sendTransaction({ from: account.address, to: payee, value: 777n });
    hash = receipt.transactionHash;
    assert.equal(receipt.status, 1n);
    assert.equal(await web3.eth.getBalance(payee), 777n);
    assert.equal(await web3.eth.getTransactionCount(account.address), before + 1n);
    assert.equal((await web3.eth.getTransaction(hash)).value, 777n);
  });

  if (chain.real) {
    await check("a contract is deployed and its event seen in a receipt", async () => {
      const fresh = new web3.eth.Contract(contract.abi);
      deployed = await fresh.deploy({ data: contract.bytecode }).send({ from: account.address });
      const { address } = deployed.options;
      // Without data web3.js treats it as a plain payment and sets the gas for that only.
      const receipt = await web3.eth.sendTransaction({ from: account.address, to: address, gas: 100_000 });
      hash = receipt.transactionHash;
      assert.equal(receipt.logs[0].topics[0], web3.utils.keccak256("Ping()"));
    });
    await check("a reverted call carries its reason", async () => {
      const error = await failure(deployed.methods.refuse().call());
      assert.match(said(error).message, /not today/);
    });
  } else {
    deployed = new web3.eth.Contract(token, chain.token);
    await check("a contract is read and its event seen in a receipt", async () => {
      assert.match(await deployed.methods.symbol().call(), /USD/);
      const receipt = await deployed.methods.transfer(payee, 0n).send({ from: account.address });
      hash = receipt.transactionHash;
      assert.equal(receipt.events.Transfer.returnValues.to, payee);
    });
    await check("a reverted call carries its reason", async () => {
      const error = await failure(deployed.methods.transfer(payee, 1n).call({ from: EMPTY }));
      assert.match(said(error).message, /exceeds balance/);
    });
  }

  await check("logs; on eth once a minute", async () => {
    await minuteWith(10);
    const { blockNumber } = await web3.eth.getTransactionReceipt(hash);
    const range = { address: deployed.options.address, fromBlock: blockNumber, toBlock: blockNumber };
    assert.ok((await web3.eth.getPastLogs(range)).some((log) => log.transactionHash === hash));
    if (chain.name !== "eth") {
      assert.ok((await web3.eth.getPastLogs(range)).length > 0);
      return undefined;
    }
    const error = await failure(web3.eth.getPastLogs(range));
    assert.equal(error.statusCode, 429);
    return `429: ${error.message}`;
  });
});
