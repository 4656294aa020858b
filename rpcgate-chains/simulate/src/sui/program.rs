//! Runs a transaction's commands on coins.

use super::tx::{Argument, Command, Id, Input, Program};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Coin {
    pub(crate) version: u64,
    pub(crate) owner: Id,
    pub(crate) balance: u64,
}

/// A coin before and after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) id: Id,
    pub(crate) before: Option<Coin>,
    pub(crate) after: Option<Coin>,
}

/// The kind of an intermediate value.
#[derive(Debug, Clone, Copy)]
enum TypedValue {
    Coin(Id),
    Number(u64),
    Address(Id),
}

/// The state of a run: the coins after the commands so far.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    program: &'a Program,
    gas: Id,
    /// The transaction's input coins in their current state; `None` for one that was merged into another.
    pub(crate) coins: BTreeMap<Id, Option<Coin>>,
    /// New coins in order of creation; without an owner until they are transferred.
    pub(crate) made: Vec<Id>,
    handed: BTreeSet<Id>,
    /// The results of each command.
    pub(crate) results: Vec<Vec<Id>>,
    new_id: fn(&Id, u64) -> Id,
    digest: Id,
}

/// The error of a command, as the status of the effects gives it.
pub(crate) type Failure = String;

impl<'a> Run<'a> {
    pub(crate) fn new(
        program: &'a Program,
        gas: Id,
        coins: BTreeMap<Id, Option<Coin>>,
        digest: Id,
        new_id: fn(&Id, u64) -> Id,
    ) -> Self {
        Run {
            program,
            gas,
            coins,
            made: Vec::new(),
            handed: BTreeSet::new(),
            results: Vec::new(),
            new_id,
            digest,
        }
    }

    pub(crate) fn all(&mut self) -> Result<(), Failure> {
        for (index, command) in self.program.commands.iter().enumerate() {
            let given = self.step(command).map_err(|why| format!("{why} in command {index}"))?;
            self.results.push(given);
        }
        // A coin without an owner cannot be dropped.
        match self.made.iter().position(|id| !self.handed.contains(id) && self.coin(id).is_some()) {
            Some(_) => Err("UnusedValueWithoutDrop { result_idx: 0, secondary_idx: 0 }".to_owned()),
            None => Ok(()),
        }
    }

    fn coin(&self, id: &Id) -> Option<Coin> {
        self.coins.get(id).copied().flatten()
    }

    fn value(&self, argument: Argument, wanted: u8) -> Result<TypedValue, Failure> {
        let result = |command: u16, part: u16| {
            let given = self.results.get(usize::from(command));
            given.and_then(|given| given.get(usize::from(part))).copied().map(TypedValue::Coin)
        };
        let wrong = || "CommandArgumentError { arg_idx: 0, kind: TypeMismatch }".to_owned();
        let missing = || "CommandArgumentError { arg_idx: 0, kind: IndexOutOfBounds }".to_owned();
        match argument {
            Argument::Gas => Ok(TypedValue::Coin(self.gas)),
            Argument::Result(command) => result(command, 0).ok_or_else(missing),
            Argument::Nested(command, part) => result(command, part).ok_or_else(missing),
            Argument::Input(index) => {
                match self.program.inputs.get(usize::from(index)).ok_or_else(missing)? {
                    Input::Owned((id, ..)) | Input::Receiving((id, ..)) => Ok(TypedValue::Coin(*id)),
                    Input::Shared { .. } => Err(wrong()),
                    Input::Pure(bytes) if wanted == b'n' => bytes
                        .as_slice()
                        .try_into()
                        .map(|raw| TypedValue::Number(u64::from_le_bytes(raw)))
                        .map_err(|_| wrong()),
                    Input::Pure(bytes) => {
                        bytes.as_slice().try_into().map(TypedValue::Address).map_err(|_| wrong())
                    }
                }
            }
        }
    }

    fn held(&self, argument: Argument) -> Result<(Id, Coin), Failure> {
        match self.value(argument, b'c')? {
            TypedValue::Coin(id) => {
                let gone = || "CommandArgumentError { arg_idx: 0, kind: InvalidValueUsage }".to_owned();
                Ok((id, self.coin(&id).ok_or_else(gone)?))
            }
            _ => Err("CommandArgumentError { arg_idx: 0, kind: TypeMismatch }".to_owned()),
        }
    }

    /// Returns all coins that a list of arguments names; an argument may be a whole result.
    fn listed(&self, arguments: &[Argument]) -> Result<Vec<Id>, Failure> {
        arguments.iter().map(|argument| self.held(*argument).map(|(id, _)| id)).collect()
    }

    fn step(&mut self, command: &Command) -> Result<Vec<Id>, Failure> {
        match command {
            Command::Split(from, amounts) => {
                let (source, mut coin) = self.held(*from)?;
                let mut given = Vec::new();
                for amount in amounts {
                    let TypedValue::Number(amount) = self.value(*amount, b'n')? else {
                        return Err("CommandArgumentError { arg_idx: 1, kind: TypeMismatch }".to_owned());
                    };
                    coin.balance = coin
                        .balance
                        .checked_sub(amount)
                        .ok_or_else(|| "InsufficientCoinBalance".to_owned())?;
                    let id = (self.new_id)(&self.digest, self.made.len() as u64);
                    self.coins.insert(id, Some(Coin { version: 0, owner: [0; 32], balance: amount }));
                    self.made.push(id);
                    given.push(id);
                }
                self.coins.insert(source, Some(coin));
                Ok(given)
            }
            Command::Merge(into, from) => {
                let (target, mut coin) = self.held(*into)?;
                for id in self.listed(from)? {
                    if id == target {
                        return Err("CommandArgumentError { arg_idx: 1, kind: InvalidValueUsage }".to_owned());
                    }
                    coin.balance = coin.balance.saturating_add(self.coin(&id).map_or(0, |one| one.balance));
                    self.coins.insert(id, None);
                }
                self.coins.insert(target, Some(coin));
                Ok(Vec::new())
            }
            Command::Transfer(objects, to) => {
                let TypedValue::Address(to) = self.value(*to, b'a')? else {
                    return Err("CommandArgumentError { arg_idx: 1, kind: TypeMismatch }".to_owned());
                };
                for id in self.listed(objects)? {
                    if let Some(Some(coin)) = self.coins.get_mut(&id) {
                        coin.owner = to;
                    }
                    self.handed.insert(id);
                }
                Ok(Vec::new())
            }
            // The node refuses these before they run.
            _ => Err("FeatureNotYetSupported".to_owned()),
        }
    }
}
