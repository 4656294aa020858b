// @grpc/grpc-js with the messages of the file that the demo writes for command line clients, the key in the metadata.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import grpc from "@grpc/grpc-js";
import { loadFileDescriptorSetFromBuffer } from "@grpc/proto-loader";
import { failure, run } from "../check.mjs";

/** Bytes as they are, for methods that no file describes. */
const raw = (bytes) => bytes;

/** An account of TRON that the simulated node funds, and one of Cosmos. */
const TRON_ACCOUNT = Buffer.from("417e5f4552091a69125d5dfcb7b8c2659029395bdf", "hex");
const COSMOS_ACCOUNT = "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e7";

/** By chain: its service, a read with a check of its answer, and a call that the node refuses. */
const CHAINS = {
  tron: {
    service: (packages) => packages.protocol.Wallet,
    read: ["GetNowBlock2", {}, (block) => block.block_header.raw_data.number > 1_000_000],
    refused: ["GetBlock", { id_or_num: "x" }],
  },
  cosmos: {
    service: (packages) => packages.cosmos.bank.v1beta1.Query,
    read: ["SupplyOf", { denom: "uatom" }, ({ amount }) => amount.denom === "uatom" && BigInt(amount.amount) > 0n],
    refused: ["SupplyOf", { denom: "" }],
  },
};

run("@grpc/grpc-js", async (chain, check) => {
  const { service, read, refused } = CHAINS[chain.name];
  const described = loadFileDescriptorSetFromBuffer(readFileSync(chain.protoset), { longs: Number, defaults: true });
  const Service = service(grpc.loadPackageDefinition(described));
  const target = new URL(chain.grpc).host;
  const trust = grpc.credentials.createSsl(readFileSync(chain.grpc_ca));
  const metadata = (key) => {
    const out = new grpc.Metadata();
    if (key !== null) out.set("apikey", key);
    return out;
  };
  const call = (client, [method, request], key = chain.key, options = {}) => new Promise((done, fail) => {
    client[method](request, metadata(key), options, (error, answer) => (error ? fail(error) : done(answer)));
  });
  const client = new Service(target, trust);

  await check("no key and a wrong key are UNAUTHENTICATED", async () => {
    assert.equal((await failure(call(client, read, null))).code, grpc.status.UNAUTHENTICATED);
    assert.equal((await failure(call(client, read, "rpcg_wrong"))).code, grpc.status.UNAUTHENTICATED);
  });

  await check("a read", async () => {
    const answer = await call(client, read);
    assert.ok(read[2](answer), JSON.stringify(answer));
  });

  await check("both APIs show the same", async () => {
    const headers = { apikey: chain.key };
    if (chain.name === "tron") {
      const { block_header: header, blockid } = await call(client, read);
      const number = header.raw_data.number - 1;
      const before = await call(client, ["GetBlockByNum2", { num: number }]);
      assert.deepEqual(before.blockid, header.raw_data.parentHash);
      const body = JSON.stringify({ num: number });
      const shown = await (await fetch(`${chain.url}/wallet/getblockbynum`, { method: "POST", headers, body })).json();
      assert.equal(shown.blockID, before.blockid.toString("hex"));
      assert.equal(blockid.length, 32);
      assert.ok((await call(client, ["GetAccount", { address: TRON_ACCOUNT }])).balance > 0);
    } else {
      const { balance } = await call(client, ["Balance", { address: COSMOS_ACCOUNT, denom: "uatom" }]);
      const path = `cosmos/bank/v1beta1/balances/${COSMOS_ACCOUNT}/by_denom?denom=uatom`;
      assert.deepEqual(balance, (await (await fetch(`${chain.url}/${path}`, { headers })).json()).balance);
    }
  });

  await check("a node's INVALID_ARGUMENT", async () => {
    const error = await failure(call(client, refused));
    assert.equal(error.code, grpc.status.INVALID_ARGUMENT);
    assert.ok(error.details.length > 0);
    return error.details;
  });

  await check("unknown methods and packages are UNIMPLEMENTED", async () => {
    for (const path of [`${Service.service[read[0]].path}Not`, "/nowhere.v1.Nothing/One"]) {
      const one = [path, raw, raw, Buffer.alloc(0), metadata(chain.key)];
      const error = await new Promise((done) => client.makeUnaryRequest(...one, done));
      assert.equal(error?.code, grpc.status.UNIMPLEMENTED, path);
      const many = client.makeServerStreamRequest(...one);
      const ended = await new Promise((done) => many.on("error", done).on("data", done).on("end", done));
      assert.equal(ended?.code, grpc.status.UNIMPLEMENTED, path);
    }
  });

  await check("50 calls at a time on one connection", async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => call(client, read)));
    assert.ok(answers.every(read[2]));
  });

  await check("deadlines", async () => {
    assert.ok(read[2](await call(client, read, chain.key, { deadline: Date.now() + 30_000 })));
    const late = await failure(call(client, read, chain.key, { deadline: Date.now() - 1 }));
    assert.equal(late.code, grpc.status.DEADLINE_EXCEEDED);
  });

  await check("a cancelled call leaves the connection usable", async () => {
    const error = await new Promise((done) => {
      client[read[0]](read[1], metadata(chain.key), done).cancel();
    });
    assert.equal(error.code, grpc.status.CANCELLED);
    assert.ok(read[2](await call(client, read)));
  });
});
