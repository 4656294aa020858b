//! Blocks and their transactions as JSON.

use super::chain::{Chain, Commitment, FIRST, Key, SYSTEM};
use super::method::{commitment, invalid, parameter};
use crate::envelope::Fault;
use crate::hash::{base58, from_base58};
use crate::json::{Json, object};
use crate::ledger::Payment;
use serde_json::Value;

/// The token program, and the token that odd-numbered pairs of residents pay each other in addition to lamports.
const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const MINT: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
const DECIMALS: u64 = 6;
/// The initial tokens of a resident.
const TOKENS: u64 = 1_000_000_000_000;
/// The lamports of an account of tokens, and of the programs.
const TOKEN_RENT: u64 = 2_039_280;
const PROGRAM_RENT: u64 = 934_087_680;
/// The maximum range of one request, in slots.
const RANGE: u64 = 500_000;

/// One transfer with its accounts.
struct Transfer {
    payment: Payment,
    /// `true` if the transfer also pays tokens.
    has_tokens: bool,
    keys: Vec<Key>,
}

impl Chain {
    /// Returns the account of a resident that holds its tokens.
    fn token_account(&self, n: u64) -> Key {
        self.seed.bytes("token account", n)
    }

    fn transfer(&self, payment: Payment) -> Transfer {
        let has_tokens = !payment.pair.is_multiple_of(2);
        let mut keys = vec![self.resident(payment.payer), self.resident(payment.payee)];
        if has_tokens {
            keys.extend([payment.payer, payment.payee].map(|n| self.token_account(n)));
        }
        keys.push(SYSTEM);
        if has_tokens {
            keys.extend(from_base58::<32>(TOKEN));
        }
        Transfer { payment, has_tokens, keys }
    }

    /// Reports whether a transaction mentions an account.
    pub(super) fn mentions(&self, payment: Payment, key: &Key) -> bool {
        self.transfer(payment).keys.contains(key)
    }

    /// Returns the log of a transaction.
    pub(super) fn logs(&self, payment: Payment) -> Vec<String> {
        let system = base58(&SYSTEM);
        let mut logs = vec![format!("Program {system} invoke [1]"), format!("Program {system} success")];
        if self.transfer(payment).has_tokens {
            logs.extend([
                format!("Program {TOKEN} invoke [1]"),
                "Program log: Instruction: Transfer".to_owned(),
                format!("Program {TOKEN} consumed 4645 of 399850 compute units"),
                format!("Program {TOKEN} success"),
            ]);
        }
        logs
    }

    /// Returns the lamports of the accounts of a transfer, as of a slot.
    fn balances(&self, transfer: &Transfer, slot: u64) -> Vec<u64> {
        let Transfer { payment, has_tokens, .. } = transfer;
        let mut out: Vec<u64> =
            [payment.payer, payment.payee].iter().map(|n| self.lamports(&self.resident(*n), slot)).collect();
        if *has_tokens {
            out.extend([TOKEN_RENT; 2]);
        }
        out.push(1);
        if *has_tokens {
            out.push(PROGRAM_RENT);
        }
        out
    }

    fn token_balances(&self, transfer: &Transfer, slot: u64) -> Json {
        let row = |(index, n): (u64, u64)| {
            let amount = self.tokens(TOKENS, n, slot);
            let whole = amount as f64 / 10f64.powi(DECIMALS as i32);
            object! {
                "accountIndex": index, "mint": MINT, "owner": base58(&self.resident(n)), "programId": TOKEN,
                "uiTokenAmount": object! {
                    "amount": amount.to_string(), "decimals": DECIMALS, "uiAmount": Json::float(whole),
                    "uiAmountString": whole.to_string(),
                },
            }
        };
        let rows = [(2, transfer.payment.payer), (3, transfer.payment.payee)].map(row);
        if transfer.has_tokens { Json::Array(rows.into()) } else { Json::Array(Vec::new()) }
    }

    fn transaction(&self, payment: Payment, slot: u64) -> Json {
        let transfer = self.transfer(payment);
        let keys = &transfer.keys;
        let system = if transfer.has_tokens { 4u64 } else { 2 };
        let instruction = |program: u64, accounts: &[u64], data: &[u8]| {
            object! {
                "accounts": accounts.to_vec(), "data": base58(data), "programIdIndex": program,
                "stackHeight": Json::Null,
            }
        };
        let amount = payment.amount.to_le_bytes();
        let mut instructions =
            vec![instruction(system, &[0, 1], &[&2u32.to_le_bytes()[..], &amount].concat())];
        if transfer.has_tokens {
            instructions.push(instruction(system + 1, &[2, 3, 0], &[&[3][..], &amount].concat()));
        }
        let programs = keys.len() as u64 - system;
        object! {
            "transaction": object! {
                "signatures": vec![base58(&self.signature(payment))],
                "message": object! {
                    "accountKeys": keys.iter().map(|key| base58(key)).collect::<Vec<_>>(),
                    "header": object! {
                        "numReadonlySignedAccounts": 0u64, "numReadonlyUnsignedAccounts": programs,
                        "numRequiredSignatures": 1u64,
                    },
                    "instructions": instructions,
                    "recentBlockhash": self.hash(slot - 1),
                },
            },
            "meta": object! {
                "computeUnitsConsumed": if transfer.has_tokens { 4_795u64 } else { 150 },
                "err": Json::Null,
                "fee": super::chain::FEE,
                "innerInstructions": Json::Array(Vec::new()),
                "loadedAddresses": object! {
                    "readonly": Json::Array(Vec::new()), "writable": Json::Array(Vec::new()),
                },
                "logMessages": self.logs(payment),
                "postBalances": self.balances(&transfer, slot),
                "postTokenBalances": self.token_balances(&transfer, slot),
                "preBalances": self.balances(&transfer, slot - 1),
                "preTokenBalances": self.token_balances(&transfer, slot - 1),
                "rewards": Json::Array(Vec::new()),
                "status": object! { "Ok": Json::Null },
            },
            "version": "legacy",
        }
    }

    /// Answers `getBlock`. Transactions are shown in the encoding `json` alone.
    pub(super) fn block(&self, params: &Value) -> Result<Json, Fault> {
        let slot = parameter(params, 0).as_u64();
        let slot = slot.ok_or_else(|| invalid("`params` should have at least 1 argument(s)"))?;
        let options = parameter(params, 1);
        if options["encoding"].as_str().unwrap_or("json") != "json" {
            return Err(invalid("Invalid params: only the encoding `json` is simulated."));
        }
        let commitment = commitment(options)?;
        if commitment == Commitment::Processed {
            return Err(invalid("Method does not support commitment below `confirmed`"));
        }
        if slot < FIRST {
            let why =
                format!("Block {slot} cleaned up, does not exist on node. First available block: {FIRST}");
            return Err(Fault::new(-32_001, why));
        }
        if slot > self.head - commitment.lag() {
            return Err(Fault::new(-32_004, format!("Block not available for slot {slot}")));
        }
        let mut block = object! {
            "blockHeight": Chain::block_height(slot),
            "blockTime": self.time(slot).secs(),
            "blockhash": self.hash(slot),
            "parentSlot": slot - 1,
            "previousBlockhash": self.hash(slot - 1),
        };
        let payments = self.payments(slot);
        match options["transactionDetails"].as_str().unwrap_or("full") {
            "none" => {}
            "signatures" => {
                let signatures = payments.map(|payment| base58(&self.signature(payment)));
                block.put("signatures", signatures.collect::<Vec<_>>());
            }
            "full" => {
                let transactions = payments.map(|payment| self.transaction(payment, slot));
                block.put("transactions", transactions.collect::<Vec<_>>());
            }
            _ => return Err(invalid("Invalid params: these transaction details are not simulated.")),
        }
        if options["rewards"] != false {
            block.put("rewards", Json::Array(Vec::new()));
        }
        Ok(block)
    }

    /// Answers `getBlocks`, or `getBlocksWithLimit` if the second parameter is a number of blocks. Every slot has a
    /// block.
    pub(super) fn blocks(&self, params: &Value, has_limit: bool) -> Result<Json, Fault> {
        let missing = || invalid("`params` should have at least 1 argument(s)");
        let first = parameter(params, 0).as_u64().ok_or_else(missing)?;
        let second = parameter(params, 1).as_u64();
        let options = parameter(params, if second.is_some() { 2 } else { 1 });
        let newest = self.head - commitment(options)?.lag();
        let last = match second {
            None if has_limit => return Err(missing()),
            None => newest,
            Some(limit) if has_limit => match first.saturating_add(limit).checked_sub(1) {
                Some(last) if limit > 0 => last.min(newest),
                _ => return Ok(Json::Array(Vec::new())),
            },
            Some(last) => last.min(newest),
        };
        if last.saturating_sub(first) >= RANGE || second.is_some_and(|limit| has_limit && limit > RANGE) {
            return Err(invalid(format!("Slot range too large; max {RANGE}")));
        }
        Ok((first.max(FIRST)..=last).collect::<Vec<_>>().into())
    }
}
