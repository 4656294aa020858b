// The contract of contract.json, and the ERC-20 functions that the simulated nodes' token has.

import { readFileSync } from "node:fs";

export const contract = JSON.parse(readFileSync(new URL("./contract.json", import.meta.url)));

const inputs = (types) => types.map(([name, type]) => ({ name, type }));
const view = (name, takes, type) => ({
  type: "function",
  name,
  stateMutability: "view",
  inputs: inputs(takes),
  outputs: [{ name: "", type }],
});

export const token = [
  view("symbol", [], "string"),
  view("decimals", [], "uint8"),
  view("totalSupply", [], "uint256"),
  view("balanceOf", [["owner", "address"]], "uint256"),
  {
    ...view("transfer", [["to", "address"], ["amount", "uint256"]], "bool"),
    stateMutability: "nonpayable",
  },
  {
    type: "event",
    name: "Transfer",
    inputs: [
      { name: "from", type: "address", indexed: true },
      { name: "to", type: "address", indexed: true },
      { name: "amount", type: "uint256", indexed: false },
    ],
  },
];

/** An account that holds nothing. */
export const EMPTY = "0x000000000000000000000000000000000000dEaD";
