// ethers 6, with the key in a header; once in the query.

import assert from "node:assert/strict";
import { ethers } from "ethers";
import { direct, failure, minuteWith, run } from "../check.mjs";
import { EMPTY, contract, token } from "./fixture.mjs";

/** What the node said, wherever ethers has put it. */
const said = (error) => error.error ?? error.info?.error;

run("ethers", async (chain, record) => {
  const request = new ethers.FetchRequest(chain.url);
  request.setHeader("apikey", chain.key);
  // Without this it would answer repeated requests from its own cache instead of the gateway.
  // For Polygon's chain id ethers queries a fee service on the Internet, unless it gets a network without plugins.
  const network = chain.name === "polygon" ? new ethers.Network(chain.name, chain.id) : undefined;
  const provider = new ethers.JsonRpcProvider(request, network, { cacheTimeout: -1 });
  const payloads = [];
  const open = new Map();
  const heard = new Map();
  let asked = Date.now();
  provider.on("debug", (event) => {
    if (event.action === "sendRpcPayload") {
      payloads.push(event.payload);
      asked = Date.now();
      for (const call of [event.payload].flat()) open.set(call.id, call.method);
    } else if (event.action === "receiveRpcResult") {
      for (const { id, result } of [event.result].flat()) {
        heard.set(open.get(id), result);
        open.delete(id);
      }
    }
  });
  // Distinguishes a gateway that does not answer, or with stale data, from a client that does not send.
  const check = (title, test) =>
    record(title, test, () => {
      const unanswered = [...open.values()].join() || "nothing";
      const block = Number(heard.get("eth_blockNumber"));
      return `(unanswered: ${unanswered}; last request ${Date.now() - asked} ms ago; newest block received: ${block})`;
    });
  const wallet = new ethers.Wallet(chain.account, provider);
  const payee = ethers.Wallet.createRandom().address;
  let sent;
  let deployed;

  await check("the chain id", async () => {
    assert.equal((await provider.getNetwork()).chainId, BigInt(chain.id));
  });

  await check("the key in the query", async () => {
    const other = new ethers.JsonRpcProvider(`${chain.url}?apikey=${chain.key}`);
    assert.equal((await other.getNetwork()).chainId, BigInt(chain.id));
    other.destroy();
  });

  await check("no key is a 401", async () => {
    const other = new ethers.JsonRpcProvider(chain.url, chain.id, { staticNetwork: true });
    const error = await failure(other.send("eth_chainId", []));
    assert.equal(error.info.responseStatus, "401 Unauthorized");
    assert.equal(error.info.responseBody, '{"message":"No API key found in request"}');
    other.destroy();
  });

  await check("a trailing slash", async () => {
    const other = new ethers.JsonRpcProvider(`${chain.url}/?apikey=${chain.key}`, chain.id, { staticNetwork: true });
    assert.equal(await other.send("eth_chainId", []), ethers.toQuantity(chain.id));
    other.destroy();
  });

  await check("blocks by tag, number and hash", async () => {
    const newest = await provider.getBlock("latest");
    const [byNumber, byHash] = await Promise.all([
      provider.getBlock(newest.number, true),
      provider.getBlock(newest.hash),
    ]);
    assert.equal(byNumber.hash, newest.hash);
    assert.equal(byHash.number, newest.number);
    assert.ok((await provider.getBlockNumber()) > 0);
    assert.equal(await provider.getBlock(newest.number + 1_000_000), null);
  });

  await check("account and fees", async () => {
    assert.ok((await provider.getBalance(wallet.address)) > 0n);
    assert.equal(await provider.getBalance(payee), 0n);
    const fees = await provider.getFeeData();
    // BNB Smart Chain has no base fee, so ethers computes no maximum fee there.
    assert.ok(fees.gasPrice > 0n && (fees.maxFeePerGas > 0n || chain.name === "bsc"));
  });

  await check("several calls at once are one batch", async () => {
    payloads.length = 0;
    const [height, fees, balance, nonce, code] = await Promise.all([
      provider.send("eth_blockNumber", []),
      provider.send("eth_gasPrice", []),
      provider.send("eth_getBalance", [wallet.address, "latest"]),
      provider.send("eth_getTransactionCount", [wallet.address, "latest"]),
      provider.send("eth_getCode", [EMPTY, "latest"]),
    ]);
    assert.deepEqual(payloads.map((payload) => Array.isArray(payload) && payload.length), [5]);
    for (const quantity of [height, fees, balance, nonce]) assert.match(quantity, /^0x/);
    assert.equal(code, "0x");
  });

  await check("an error in a batch stays with its call", async () => {
    const [good, bad] = await Promise.allSettled([
      provider.send("eth_chainId", []),
      provider.send("eth_noSuchMethod", []),
    ]);
    assert.equal(good.value, ethers.toQuantity(chain.id));
    assert.equal(said(bad.reason).code, -32601);
  });

  await check("ids are echoed", async () => {
    for (const id of [0, 9007199254740991, -1, "7", ""]) {
      const payload = { jsonrpc: "2.0", id, method: "eth_chainId", params: [] };
      assert.deepEqual(await provider._send(payload), [{ jsonrpc: "2.0", id, result: ethers.toQuantity(chain.id) }]);
    }
  });

  await check("an unknown method's error is the node's", async () => {
    const error = said(await failure(provider.send("eth_noSuchMethod", [])));
    assert.equal(error.code, -32601);
    assert.match(error.message, /eth_noSuchMethod|not found/i);
    if (chain.direct) assert.deepEqual(error, (await direct(chain, "eth_noSuchMethod", [])).error);
  });

  await check("wrong parameters' error is the node's", async () => {
    const error = said(await failure(provider.send("eth_getBalance", ["0x12", "latest"])));
    assert.equal(error.code, -32602);
    if (chain.direct) assert.deepEqual(error, (await direct(chain, "eth_getBalance", ["0x12", "latest"])).error);
  });

  await check("debug, trace and control methods are closed", async () => {
    const traced = await failure(provider.send("debug_traceTransaction", [ethers.ZeroHash]));
    if (chain.name === "eth") {
      assert.equal(traced.info.responseStatus, "403 Forbidden");
      assert.equal(traced.info.responseBody, '{"error":"debug methods not permitted"}');
    } else {
      assert.deepEqual(said(traced), { code: -32601, message: "method not available" });
    }
    for (const method of ["trace_block", "admin_peers", "personal_listAccounts", "miner_start"]) {
      const error = said(await failure(provider.send(method, ["latest"])));
      assert.deepEqual(error, { code: -32601, message: "method not available" }, method);
    }
  });

  await check("a transaction signed here is mined", async () => {
    const before = await provider.getTransactionCount(wallet.address);
    sent = await wallet.sendTransaction({ to: payee, value: 12345n });
    const receipt = await sent.wait();
    assert.equal(receipt.status, 1);
    assert.equal(receipt.hash, sent.hash);
    assert.equal(await provider.getBalance(payee), 12345n);
    assert.equal(await provider.getTransactionCount(wallet.address), before + 1);
    assert.equal((await provider.getTransaction(sent.hash)).value, 12345n);
    assert.equal(await provider.getTransactionReceipt(ethers.ZeroHash), null);
  });

  await check("sending it again gives the node's error", async () => {
    const raw = ethers.Transaction.from(await provider.getTransaction(sent.hash)).serialized;
    const error = said(await failure(provider.send("eth_sendRawTransaction", [raw])));
    assert.ok(error.code < 0 && error.message.length > 0);
    if (chain.direct) assert.deepEqual(error, (await direct(chain, "eth_sendRawTransaction", [raw])).error);
    return error.message;
  });

  if (chain.real) {
    await check("a contract is deployed", async () => {
      const factory = new ethers.ContractFactory(contract.abi, contract.bytecode, wallet);
      deployed = await (await factory.deploy()).waitForDeployment();
      assert.notEqual(await deployed.getDeployedCode(), null);
    });
    await check("its event is seen in a receipt", async () => {
      sent = await wallet.sendTransaction({ to: await deployed.getAddress() });
      const receipt = await sent.wait();
      assert.equal(receipt.logs[0].topics[0], ethers.id("Ping()"));
    });
    await check("a reverted call carries its reason", async () => {
      const error = await failure(deployed.refuse.staticCall());
      assert.equal(error.code, "CALL_EXCEPTION");
      assert.equal(error.reason, "not today");
    });
  } else {
    deployed = new ethers.Contract(chain.token, token, wallet);
    await check("a contract is read and its event seen in a receipt", async () => {
      assert.match(await deployed.symbol(), /USD/);
      assert.ok((await deployed.totalSupply()) > 0n);
      sent = await deployed.transfer(payee, 0n);
      const receipt = await sent.wait();
      assert.equal(receipt.logs[0].topics[0], ethers.id("Transfer(address,address,uint256)"));
    });
    await check("a reverted call carries its reason", async () => {
      const error = await failure(deployed.connect(provider).transfer.staticCall(payee, 1n, { from: EMPTY }));
      assert.equal(error.code, "CALL_EXCEPTION");
      assert.match(error.reason, /exceeds balance/);
    });
  }

  const events = async () => {
    const { blockNumber } = await provider.getTransactionReceipt(sent.hash);
    const filter = chain.real ? deployed.filters.Ping() : deployed.filters.Transfer();
    return deployed.queryFilter(filter, blockNumber, blockNumber);
  };
  await check("logs; on eth once a minute", async () => {
    await minuteWith(20);
    assert.ok((await events()).some((log) => log.transactionHash === sent.hash));
    if (chain.name !== "eth") {
      assert.ok((await events()).length > 0);
      return undefined;
    }
    const start = Date.now();
    // ethers requests the chain id in the same batch, so the refusal is an item of the batch here.
    const refused = { code: -32029, message: "Heavy method rate limit: 1/min for eth_getLogs" };
    assert.deepEqual((await failure(events())).error, refused);
    // A single call gets a 429: ethers retries twelve times, reads Retry-After as milliseconds, and returns its own 599.
    const alone = new ethers.JsonRpcProvider(request, chain.id, { staticNetwork: true });
    const error = await failure(alone.send("eth_getLogs", [{ fromBlock: "latest" }]));
    alone.destroy();
    assert.equal(error.code, "SERVER_ERROR");
    assert.match(error.response.statusMessage, /429 Too Many Requests/);
    assert.equal(error.response.bodyJson.message, refused.message);
    return `429 after ${Date.now() - start} ms: ${error.shortMessage}`;
  });

  provider.destroy();
});
