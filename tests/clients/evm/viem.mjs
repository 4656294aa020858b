// viem 2 over its http transport, with the key in a header and batching on; once in the query.

import assert from "node:assert/strict";
import * as viem from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import * as chains from "viem/chains";
import { direct, failure, minuteWith, run } from "../check.mjs";
import { EMPTY, contract, token } from "./fixture.mjs";

const DEFINED = { eth: chains.mainnet, bsc: chains.bsc, polygon: chains.polygon, avax: chains.avalanche };

/** The innermost cause: what came over the wire. */
const root = (error) => error.walk?.() ?? error;

run("viem", async (chain, check) => {
  const bodies = [];
  const transport = (options) =>
    viem.http(chain.url, {
      fetchOptions: { headers: { apikey: chain.key } },
      onFetchRequest: async (request) => {
        bodies.push(JSON.parse(await request.clone().text()));
      },
      ...options,
    });
  const definition = DEFINED[chain.name];
  const reader = viem.createPublicClient({ chain: definition, transport: transport() });
  const batching = viem.createPublicClient({ chain: definition, transport: transport({ batch: true }) });
  const account = privateKeyToAccount(chain.account);
  const writer = viem.createWalletClient({ account, chain: definition, transport: transport() });
  const payee = privateKeyToAccount(generatePrivateKey()).address;
  let hash;
  let deployed;

  await check("the chain id", async () => {
    assert.equal(await reader.getChainId(), chain.id);
    assert.deepEqual(Object.keys(bodies[0]).sort(), ["id", "jsonrpc", "method"]);
  });

  await check("the key in the query", async () => {
    const other = viem.createPublicClient({ transport: viem.http(`${chain.url}?apikey=${chain.key}`) });
    assert.equal(await other.getChainId(), chain.id);
  });

  await check("no key is a 401", async () => {
    const other = viem.createPublicClient({ transport: viem.http(chain.url) });
    const error = root(await failure(other.getChainId()));
    assert.equal(error.status, 401);
  });

  await check("blocks by tag, number and hash", async () => {
    const newest = await reader.getBlock();
    const byNumber = await reader.getBlock({ blockNumber: newest.number, includeTransactions: true });
    assert.equal(byNumber.hash, newest.hash);
    assert.equal((await reader.getBlock({ blockHash: newest.hash })).number, newest.number);
    assert.ok((await reader.getBlockNumber()) > 0n);
    const error = await failure(reader.getBlock({ blockNumber: newest.number + 1_000_000n }));
    assert.equal(error.name, "BlockNotFoundError");
  });

  await check("account and fees", async () => {
    assert.ok((await reader.getBalance({ address: account.address })) > 0n);
    assert.equal(await reader.getCode({ address: EMPTY }), undefined);
    const fees = await reader.estimateFeesPerGas();
    assert.ok(fees.maxFeePerGas > 0n);
    const history = await reader.getFeeHistory({ blockCount: 2, rewardPercentiles: [12.5, 50] });
    assert.equal(history.baseFeePerGas.length, history.gasUsedRatio.length + 1);
  });

  await check("several calls at once are one batch", async () => {
    bodies.length = 0;
    const [id, height, balance] = await Promise.all([
      batching.getChainId(),
      batching.getBlockNumber(),
      batching.getBalance({ address: account.address }),
    ]);
    assert.deepEqual(bodies.map((body) => body.length), [3]);
    assert.equal(id, chain.id);
    assert.ok(height > 0n && balance > 0n);
  });

  await check("a batch of one", async () => {
    bodies.length = 0;
    assert.equal(await batching.getChainId(), chain.id);
    assert.deepEqual(bodies.map((body) => body.length), [1]);
  });

  await check("an error in a batch stays with its call", async () => {
    const [good, bad] = await Promise.allSettled([
      batching.getChainId(),
      batching.request({ method: "eth_noSuchMethod", params: [] }),
    ]);
    assert.equal(good.value, chain.id);
    assert.equal(root(bad.reason).code, -32601);
  });

  await check("an unknown method's error is the node's", async () => {
    const error = root(await failure(reader.request({ method: "eth_noSuchMethod", params: [] })));
    assert.equal(error.code, -32601);
    if (chain.direct) {
      const { message } = (await direct(chain, "eth_noSuchMethod", [])).error;
      assert.equal(error.message, message);
    }
  });

  await check("debug, trace and control methods are closed", async () => {
    const once = viem.createPublicClient({ transport: transport({ retryCount: 0 }) });
    const traced = root(await failure(once.request({ method: "debug_traceTransaction", params: [viem.zeroHash] })));
    if (chain.name === "eth") {
      assert.equal(traced.status, 403);
      assert.match(traced.details, /debug methods not permitted/);
    } else {
      assert.equal(traced.code, -32601);
    }
    for (const method of ["trace_block", "admin_peers", "personal_listAccounts"]) {
      const error = root(await failure(once.request({ method, params: ["latest"] })));
      assert.deepEqual([error.code, error.message], [-32601, "method not available"], method);
    }
  });

  await check("a transaction signed here is mined", async () => {
    const before = await reader.getTransactionCount({ address: account.address });
    bodies.length = 0;
    hash = await writer.sendTransaction({ to: payee, value: 54321n });
    const methods = bodies.map((body) => body.method);
    assert.ok(methods.includes("eth_sendRawTransaction"), methods.join());
    const receipt = await reader.waitForTransactionReceipt({ hash });
    assert.equal(receipt.status, "success");
    assert.equal(await reader.getBalance({ address: payee }), 54321n);
    assert.equal(await reader.getTransactionCount({ address: account.address }), before + 1);
    assert.equal((await reader.getTransaction({ hash })).value, 54321n);
    const error = await failure(reader.getTransactionReceipt({ hash: viem.zeroHash }));
    assert.equal(error.name, "TransactionReceiptNotFoundError");
    return methods.join(" ");
  });

  if (chain.real) {
    await check("a contract is deployed and its event seen in a receipt", async () => {
      const { contractAddress } = await reader.waitForTransactionReceipt({
        hash: await writer.deployContract({ abi: contract.abi, bytecode: contract.bytecode }),
      });
      deployed = contractAddress;
      hash = await writer.sendTransaction({ to: deployed });
      const receipt = await reader.waitForTransactionReceipt({ hash });
      const [log] = viem.parseEventLogs({ abi: contract.abi, logs: receipt.logs });
      assert.equal(log.eventName, "Ping");
    });
    await check("a reverted call carries its reason", async () => {
      const call = { address: deployed, abi: contract.abi, functionName: "refuse" };
      const error = await failure(reader.readContract(call));
      assert.match(error.shortMessage, /not today/);
    });
  } else {
    deployed = chain.token;
    await check("a contract is read and its event seen in a receipt", async () => {
      assert.match(await reader.readContract({ address: deployed, abi: token, functionName: "symbol" }), /USD/);
      const call = { address: deployed, abi: token, functionName: "transfer", args: [payee, 0n], account };
      const { request } = await reader.simulateContract(call);
      hash = await writer.writeContract(request);
      const receipt = await reader.waitForTransactionReceipt({ hash });
      const [log] = viem.parseEventLogs({ abi: token, logs: receipt.logs });
      assert.equal(log.args.to, payee);
    });
    await check("a reverted call carries its reason", async () => {
      const call = { address: deployed, abi: token, functionName: "transfer", args: [payee, 1n], account: EMPTY };
      const error = await failure(reader.simulateContract(call));
      assert.match(error.shortMessage, /exceeds balance/);
    });
  }

  const logs = async (client) => {
    const { blockNumber } = await client.getTransactionReceipt({ hash });
    return client.getLogs({ address: deployed, fromBlock: blockNumber, toBlock: blockNumber });
  };
  await check("logs; on eth once a minute", async () => {
    await minuteWith(5);
    assert.ok((await logs(reader)).some((log) => log.transactionHash === hash));
    if (chain.name !== "eth") {
      assert.ok((await logs(reader)).length > 0);
      return undefined;
    }
    const once = viem.createPublicClient({ chain: definition, transport: transport({ retryCount: 0 }) });
    const error = root(await failure(logs(once)));
    assert.equal(error.status, 429);
    assert.ok(Number(error.headers.get("retry-after")) <= 60);
    const start = Date.now();
    // By default viem waits for the time in Retry-After, and then succeeds.
    assert.ok((await logs(reader)).some((log) => log.transactionHash === hash));
    return `429, then served after waiting ${Date.now() - start} ms`;
  });
});
