//! The events of one Solana transaction.

use super::program::{Instruction, SYSTEM, is_native, logged, transfer};
use crate::activity::Activity;
use crate::answer::{TEXT_BYTES, number, shortened};
use crate::moves::Moves;
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;

/// The native coin's name in transfers.
const SOL: &str = "SOL";

/// A transaction as `getBlock` shows it with the encoding `json`.
#[derive(Deserialize)]
pub(super) struct Transaction {
    transaction: Signed,
    meta: Meta,
}

#[derive(Deserialize)]
struct Signed {
    signatures: Vec<String>,
    message: Message,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    account_keys: Vec<String>,
    instructions: Vec<Instruction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    err: Option<IgnoredAny>,
    pre_balances: Vec<u64>,
    post_balances: Vec<u64>,
    #[serde(default)]
    pre_token_balances: Option<Vec<TokenBalance>>,
    #[serde(default)]
    post_token_balances: Option<Vec<TokenBalance>>,
    #[serde(default)]
    inner_instructions: Option<Vec<InnerInstructions>>,
    #[serde(default)]
    log_messages: Option<Vec<String>>,
    #[serde(default)]
    loaded_addresses: Option<LoadedAddresses>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenBalance {
    account_index: usize,
    mint: String,
    #[serde(default)]
    owner: Option<String>,
    ui_token_amount: TokenAmount,
}

#[derive(Deserialize)]
struct TokenAmount {
    #[serde(deserialize_with = "number")]
    amount: u64,
}

#[derive(Deserialize)]
struct InnerInstructions {
    index: usize,
    instructions: Vec<Instruction>,
}

/// The accounts from lookup tables, which come after those of the message.
#[derive(Deserialize)]
struct LoadedAddresses {
    writable: Vec<String>,
    readonly: Vec<String>,
}

struct TokenChange<'a> {
    mint: &'a str,
    owner: &'a str,
    change: i128,
}

impl Transaction {
    /// Returns all accounts, in the order by which instructions and balances refer to them.
    fn keys(&self) -> Vec<&str> {
        let loaded = self.meta.loaded_addresses.as_ref();
        let loaded = loaded.into_iter().flat_map(|loaded| loaded.writable.iter().chain(&loaded.readonly));
        self.transaction.message.account_keys.iter().chain(loaded).map(String::as_str).collect()
    }

    /// Returns all instructions in order, each followed by those that it has called.
    fn instructions(&self) -> Vec<&Instruction> {
        let mut called: HashMap<usize, Vec<&Instruction>> = HashMap::new();
        for inner in self.meta.inner_instructions.iter().flatten() {
            called.entry(inner.index).or_default().extend(&inner.instructions);
        }
        let mut all = Vec::new();
        for (index, instruction) in self.transaction.message.instructions.iter().enumerate() {
            all.push(instruction);
            all.extend(called.remove(&index).unwrap_or_default());
        }
        all
    }

    pub(super) fn events(&self, filter: &EventFilter, out: &mut Vec<ChainEvent>) -> Result<(), ReadError> {
        let signature = self.transaction.signatures.first();
        let signature = signature.ok_or(ReadError::Unreadable("the signature of a transaction"))?;
        let event = |kind| ChainEvent::new(kind).with("tx_hash", &**signature);
        let keys = self.keys();
        let is_success = self.meta.err.is_none();
        if filter.wants(EventType::AddressActivity) {
            let event = event(EventType::AddressActivity).with("success", is_success);
            self.activity(&keys)?.events(&event, filter, out);
        }
        if !is_success {
            return Ok(());
        }
        if filter.wants(EventType::TokenTransfer) {
            self.transfers(&keys, &event(EventType::TokenTransfer), out)?;
        }
        if filter.wants(EventType::ContractEvent) {
            self.programs(&keys, &event(EventType::ContractEvent), out)?;
        }
        Ok(())
    }

    fn activity(&self, keys: &[&str]) -> Result<Activity, ReadError> {
        let before = &self.meta.pre_balances;
        let after = &self.meta.post_balances;
        if before.len() != keys.len() || after.len() != keys.len() {
            return Err(ReadError::Unreadable("the balances of a transaction"));
        }
        let mut activity = Activity::default();
        for ((key, before), after) in keys.iter().zip(before).zip(after) {
            let change = Some(u128::from(before.abs_diff(*after)));
            match after.cmp(before) {
                std::cmp::Ordering::Less => activity.pays(key, "", change),
                std::cmp::Ordering::Greater => activity.is_paid(key, "", change),
                std::cmp::Ordering::Equal => {}
            }
        }
        for change in self.token_changes(keys)? {
            if change.change < 0 {
                activity.sends(change.owner);
            } else {
                activity.receives(change.owner);
            }
        }
        Ok(activity)
    }

    fn token_changes<'a>(&'a self, keys: &[&'a str]) -> Result<Vec<TokenChange<'a>>, ReadError> {
        let mut changes: Vec<TokenChange<'a>> = Vec::new();
        let mut positions = HashMap::new();
        let before = self.meta.pre_token_balances.iter().flatten().map(|balance| (balance, -1));
        let after = self.meta.post_token_balances.iter().flatten().map(|balance| (balance, 1));
        for (balance, sign) in before.chain(after) {
            // Validators include the owner since 2021; without it the account is used.
            let owner = balance.owner.as_deref().or_else(|| keys.get(balance.account_index).copied());
            let owner = owner.ok_or(ReadError::Unreadable("a token balance"))?;
            let mint = balance.mint.as_str();
            let position = *positions.entry((mint, owner)).or_insert_with(|| {
                changes.push(TokenChange { mint, owner, change: 0 });
                changes.len() - 1
            });
            if let Some(change) = changes.get_mut(position) {
                change.change += sign * i128::from(balance.ui_token_amount.amount);
            }
        }
        changes.retain(|change| change.change != 0);
        Ok(changes)
    }

    fn transfers(
        &self,
        keys: &[&str],
        event: &ChainEvent,
        out: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        let mut index = 0u64;
        let mut push = |token: &str, from: Option<&str>, to: Option<&str>, amount: u128| {
            let mut event =
                event.clone().with("index", index).with("token", token).with("value", amount.to_string());
            for (name, key) in [("from", from), ("to", to)] {
                if let Some(key) = key {
                    event = event.with(name, key);
                }
            }
            index += 1;
            out.push(event);
        };
        for instruction in self.instructions() {
            if keys.get(instruction.program_id_index) == Some(&SYSTEM)
                && let Some((from, to, lamports)) = transfer(instruction, keys)?
                && lamports > 0
            {
                push(SOL, Some(from), Some(to), lamports.into());
            }
        }
        let changes = self.token_changes(keys)?;
        let mut moves = Moves::new();
        for change in changes.iter().filter(|change| change.change < 0) {
            moves.withdraw(change.mint, change.owner, change.change.unsigned_abs());
        }
        for change in changes.iter().filter(|change| change.change > 0) {
            moves.deposit(change.mint, &change.owner, change.change.unsigned_abs());
        }
        for made in moves.done() {
            push(&made.token, made.from, made.to, made.amount);
        }
        Ok(())
    }

    fn programs(
        &self,
        keys: &[&str],
        event: &ChainEvent,
        out: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        let mut index = 0u64;
        let mut push = |program: &str, kind: &str, name: &str, value: Option<&str>| {
            if is_native(program) {
                return;
            }
            let event = event.clone().with("index", index).with("program", program).with("kind", kind);
            index += 1;
            out.push(match value {
                Some(value) => event.with(name, value),
                None => event,
            });
        };
        for instruction in self.instructions() {
            let program = keys.get(instruction.program_id_index).copied();
            let program = program.ok_or(ReadError::Unreadable("the program of an instruction"))?;
            let data = Some(&*instruction.data).filter(|data| data.len() <= TEXT_BYTES);
            push(program, "instruction", "data", data);
        }
        for logged in logged(self.meta.log_messages.as_deref().unwrap_or_default()) {
            match logged.kind {
                "log" => push(logged.program, "log", "log", Some(shortened(logged.line))),
                kind => push(
                    logged.program,
                    kind,
                    "data",
                    Some(logged.line).filter(|line| line.len() <= TEXT_BYTES),
                ),
            }
        }
        Ok(())
    }
}
