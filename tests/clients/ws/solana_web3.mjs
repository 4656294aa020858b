// @solana/web3.js 1, with the key in the query of its WebSocket.

import assert from "node:assert/strict";
import { Connection, SystemProgram } from "@solana/web3.js";
import { run } from "../check.mjs";

run("@solana/web3.js", async (chain, check) => {
  const wsEndpoint = `${chain.ws}?apikey=${chain.key}`;
  const connection = new Connection(chain.url, { wsEndpoint, commitment: "confirmed" });
  const first = (subscribe, remove) =>
    new Promise((done) => {
      const id = subscribe((...told) => {
        remove(id);
        done(told);
      });
    });

  await check("slots are told for longer than a ping takes", async () => {
    const slots = [];
    await new Promise((done) => {
      const id = connection.onSlotChange(({ slot }) => {
        if (slots.push(slot) === 20) {
          connection.removeSlotChangeListener(id);
          done();
        }
      });
    });
    assert.equal(slots[19], slots[0] + 19);
    return slots[19];
  });

  await check("accounts of a program, logs, and a signature", async () => {
    const [told] = await first(
      (listener) => connection.onProgramAccountChange(SystemProgram.programId, listener),
      (id) => connection.removeProgramAccountChangeListener(id),
    );
    const [account] = await first(
      (listener) => connection.onAccountChange(told.accountId, listener),
      (id) => connection.removeAccountChangeListener(id),
    );
    assert.notEqual(account.lamports, told.accountInfo.lamports);
    const [logs] = await first(
      (listener) => connection.onLogs(told.accountId, listener, "processed"),
      (id) => connection.removeOnLogsListener(id),
    );
    const [result] = await new Promise((done) => {
      connection.onSignature(logs.signature, (...told) => done(told), "finalized");
    });
    assert.equal(result.err, null);
  });
});
